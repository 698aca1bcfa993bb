"""Attempts to leave a sandbox; prints the result of each.

Arguments: the project, a directory outside, the id of a process outside, and the networks' names.
"""

import ctypes
import errno
import os
import resource
import signal
import socket
import sys

project, outside, process, tcp, udp = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    if libc.syscall(number, *arguments) == -1:
        raise OSError(ctypes.get_errno(), "")


def attempt(name, action):
    try:
        result = "denied" if action() == "" else "allowed"
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "timeout")
        # Root is refused by the sandbox, another user by the system too.
        result = "denied" if name == "system" else f"denied ({code})"
    print(f"{name}: {result}")


def write(path):
    with open(path, "a") as file:
        file.write("x")


def read(path):
    with open(path) as file:
        return file.read()


def by_link():
    os.symlink(f"{outside}/file", f"{project}/link")
    write(f"{project}/link")


def by_hard_link():
    os.link(f"{outside}/file", f"{project}/hard link")
    write(f"{project}/hard link")


def mounted():
    if libc.mount(b"/", project.encode(), None, 4096, None) == -1:
        raise OSError(ctypes.get_errno(), "")


def mounted_by_a_new_user():
    child = os.fork()
    if child == 0:
        libc.unshare(0x10020000)
        try:
            mounted()
        except OSError as error:
            os._exit(error.errno)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, "")


def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as it:
        it.settimeout(5)
        it.connect(address)


def send(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
        it.sendto(b"x", address)


def traced():
    if libc.ptrace(16, int(process), 0, 0) == -1:
        raise OSError(ctypes.get_errno(), "")
    libc.ptrace(17, int(process), 0, 0)


def raw():
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP) as it:
        it.sendto(b"x", ("127.0.0.1", 0))


write(f"{project}/written")
attempt("new file", lambda: write(f"{outside}/new"))
attempt("file", lambda: write(f"{outside}/file"))
attempt("truncation", lambda: os.truncate(f"{outside}/file", 0))
attempt("removal", lambda: os.remove(f"{outside}/file"))
attempt("directory", lambda: os.mkdir(f"{outside}/directory"))
attempt("by link", by_link)
attempt("by hard link", by_hard_link)
attempt("moved in", lambda: os.rename(f"{outside}/file", f"{project}/file"))
attempt("moved out", lambda: os.rename(f"{project}/written", f"{outside}/moved"))
attempt("by /proc/self/root", lambda: write(f"/proc/self/root{outside}/new"))
attempt("by /proc/PID/root", lambda: write(f"/proc/{process}/root{outside}/new"))
attempt("mode", lambda: os.chmod(f"{outside}/file", 0o600))
attempt("system", lambda: write("/proc/sys/kernel/core_pattern"))
attempt("mount", mounted)
attempt("mount by a new user", mounted_by_a_new_user)
attempt("git hook", lambda: write(f"{project}/.git/hooks/pre-commit"))
attempt("git settings", lambda: write(f"{project}/.git/config"))
attempt("git moved", lambda: os.rename(f"{project}/.git", f"{project}/.git2"))
attempt("keys", lambda: read(f"{outside}/keys/key"))
attempt("keys by /proc", lambda: read(f"/proc/self/root{outside}/keys/key"))
attempt("new key", lambda: write(f"{outside}/keys/new"))
attempt("login", lambda: read(f"{outside}/login"))
attempt("signal", lambda: os.kill(int(process), signal.SIGCONT))
attempt("debugging", traced)
attempt("limits", lambda: resource.prlimit(int(process), resource.RLIMIT_NOFILE, (64, 64)))
attempt("environment", lambda: read(f"/proc/{process}/environ"))
attempt("io_uring", lambda: call(425, 8, ctypes.create_string_buffer(120)))
attempt("kernel key", lambda: call({"x86_64": 250}.get(os.uname().machine, 219), 0, -3, 0))
attempt("vsock", lambda: connect(40, (2, 9)))
attempt("packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9))
attempt("tcp", lambda: connect(socket.AF_INET, ("127.0.0.1", int(tcp))))
attempt("raw", raw)
attempt("dns", lambda: socket.getaddrinfo("pypi.org", 80))
attempt("unix", lambda: connect(socket.AF_UNIX, f"{outside}/socket"))
attempt("abstract", lambda: connect(socket.AF_UNIX, f"\0pilcrow-{tcp}"))
try:
    send(("127.0.0.1", int(udp)))
except OSError:
    # The test looks whether it arrives: a network of its own accepts it too.
    pass
