def greet(name):
    msg = "Hello, " + name
    log(msg)
