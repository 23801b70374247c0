"""Listen on a port in the sandbox, hand that socket out, and become the command.

A program of its own, started by path in an interpreter without our package and without site
packages: it imports only modules that Python has loaded anyway, so that a command begins early. As
the ProxyCommand of ssh it carries one connection through the proxy.
"""

import _socket
import os
import sys

CONNECT = "--connect"
_RIGHTS_BYTES = 4
_CHUNK = 65536


def main(arguments: list[str]) -> None:
    """Run as `inside.py SOCKET PORT COMMAND...`, or as `inside.py --connect PORT HOST PORT`."""
    if arguments[0] == CONNECT:
        _, port, host, its_port = arguments
        sys.exit(_carry(int(port), f"{host}:{its_port}"))
    path, port, *command = arguments
    try:
        _hand_out(path, int(port))
    except OSError as error:
        sys.stderr.write(f"agent-cli: this command has no network: {error}\n")
    os.execvp(command[0], command)


def _hand_out(path: str, port: int) -> None:
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    proxy = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    proxy.connect(path)
    rights = listener.fileno().to_bytes(_RIGHTS_BYTES, sys.byteorder)
    proxy.sendmsg([b"l"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    proxy.recv(1)  # from now on the proxy serves it, and the unix socket is gone
    proxy.close()
    listener.close()


def _carry(port: int, target: str) -> str | int:
    """Connect standard input and output to *target*; return why that is not possible, or 0."""
    import select  # only for ssh

    proxy = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    proxy.connect(("127.0.0.1", port))
    proxy.sendall(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = proxy.recv(1)
        if not piece:
            return "agent-cli: the proxy has closed the connection"
        head += piece
    if not head.startswith(b"HTTP/1.1 200 "):
        return proxy.recv(_CHUNK).decode(errors="replace").strip()
    sources = [0, proxy.fileno()]
    while proxy.fileno() in sources:
        for source in select.select(sources, [], [])[0]:
            piece = os.read(source, _CHUNK)
            if not piece:
                sources.remove(source)
                if source == 0:
                    proxy.shutdown(_socket.SHUT_WR)
            elif source == 0:
                proxy.sendall(piece)
            else:
                while piece:
                    piece = piece[os.write(1, piece) :]
    return 0


if __name__ == "__main__":
    main(sys.argv[1:])
