"""TLS before a server that has none: python3 serve.py CERTIFICATE PORT; prints its own port."""

import socket
import ssl
import sys
import threading

certificate, port = sys.argv[1], int(sys.argv[2])
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate)


def pump(source, sink):
    try:
        while part := source.recv(65536):
            sink.sendall(part)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def serve(plain):
    try:
        client = context.wrap_socket(plain, server_side=True)
    except OSError:
        return  # Who does not trust it goes away in the middle.
    server = socket.create_connection(("127.0.0.1", port))
    threading.Thread(target=pump, args=(client, server), daemon=True).start()
    pump(server, client)


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
