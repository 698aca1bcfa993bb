def greet(name):
    msg = "Hello, " + name
    print(msg)
