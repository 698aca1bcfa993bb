import ctypes, os, struct, sys
# Answers the system call landlock_create_ruleset with ENOSYS (38).
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050026), (0x06, 0, 0, 0x7FFF0000)]
filters = b"".join(struct.pack("HBBI", *it) for it in code)
memory = ctypes.create_string_buffer(filters)
program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(memory))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
