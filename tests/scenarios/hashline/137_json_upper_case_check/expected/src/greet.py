def greet(name):
    pass
    print(msg)
