"""Serves a package `tiny` as PyPI and the npm registry do, on an address outside of loopback's usual one.

Prints its port.
"""

import http.server
import io
import json
import tarfile
import zipfile

DESCRIPTION = {
    "METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
    "WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "RECORD": "tiny.py,,\n",
}
WHEEL = "tiny-1.0-py3-none-any.whl"


def wheel():
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("tiny.py", "answer = 42\n")
        for name, text in DESCRIPTION.items():
            archive.writestr(f"tiny-1.0.dist-info/{name}", text)
    return data.getvalue()


def tarball():
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        files = {"package.json": b'{"name":"tiny","version":"1.0.0"}', "index.js": b"module.exports = 42\n"}
        for name, text in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
    return data.getvalue()


class Registry(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        package = {
            "name": "tiny",
            "version": "1.0.0",
            "dist": {"tarball": f"http://{self.headers['host']}/tiny.tgz"},
        }
        answers = {
            "/simple/tiny/": ("text/html", f'<a href="{WHEEL}">{WHEEL}</a>'.encode()),
            f"/simple/tiny/{WHEEL}": ("application/zip", wheel()),
            "/tiny": (
                "application/json",
                json.dumps(
                    {"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": package}}
                ).encode(),
            ),
            "/tiny.tgz": ("application/octet-stream", tarball()),
        }
        kind, body = answers.get(self.path, ("text/plain", b""))
        self.send_response(200 if body else 404)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.2", 0), Registry)
print(server.server_port, flush=True)
server.serve_forever()
