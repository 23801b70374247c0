"""Run a Python script as a fork of the fork server: see tests/forked.py.

    python -I -S as_fork.py SOCKET SCRIPT [ARGUMENT...]

This stands in a configuration where the command of a server is asked for. It starts in a fiftieth
of the time that the SDK takes to import. The script has our streams, environment and directory; its
end, also by a signal, is ours. If we are killed, it ends because its standard input does.
"""

import json
import os
import signal
import socket
import struct
import sys

HEADER = struct.Struct("!I")


def main() -> None:
    """Order the fork and wait for its end."""
    name, *command = sys.argv[1:]
    order = [command, dict(os.environ), os.getcwd(), False, False]  # noqa: PTH109 - imports little
    message = json.dumps(order).encode()
    status, writing = os.pipe()
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(f"\0{name}")
            socket.send_fds(server, [HEADER.pack(len(message))], [0, 1, 2, writing])
            server.sendall(message)
            (pid,) = HEADER.unpack(server.recv(HEADER.size, socket.MSG_WAITALL))
    except (OSError, struct.error):
        # The server has ended, or did not come to serve: the interpreter tells why.
        os.execv(sys.executable, [sys.executable, *command])
    # The streams are the fork's alone, which must be able to close them.
    for descriptor in (0, 1, 2, writing):
        os.close(descriptor)
    signal.signal(signal.SIGTERM, lambda number, _frame: os.kill(pid, number))
    signal.signal(signal.SIGINT, lambda number, _frame: os.kill(pid, number))
    code = int(os.read(status, 16))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    os._exit(code)


main()
