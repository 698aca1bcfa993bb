def greet(name):
    msg = f"Hello, {name}"
    print(msg)
