"""`agent-cli mcp serve`: its options, and the token of a server over HTTP."""

import ctypes
import os
import secrets
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agent_cli.app.arguments import Arguments
from agent_cli.app.served import ServedProgram
from agent_cli.cli.mcp import CommandParser
from agent_cli.contracts.errors import UsageError
from agent_cli.system.event_loop import run_loop

TOKEN_VARIABLE: Final = "MCP_SERVE_TOKEN"
_TOKEN_CHARS_MIN: Final = 16
_PORT_MAX: Final = 65_535


def serve(words: Sequence[str], arguments: Arguments) -> int:
    """Serve until a signal arrives or, over stdio, the client leaves; return the exit code.

    Raises:
        AgentCliError: The server cannot start.
    """
    parsed = _parser().parse_args(words)
    if not parsed.http and (parsed.port is not None or parsed.token_file):
        raise UsageError("--port and --token-file need --http: without it the server uses stdio")
    # Removed from the environment before anything copies that: commands, hooks and servers get it.
    from_variable = take_variable(TOKEN_VARIABLE)
    if not parsed.http:
        return _over_stdio(arguments)
    if parsed.token_file:
        token = _checked(_token_in(Path(parsed.token_file)), parsed.token_file)
    elif from_variable:
        token = _checked(from_variable, TOKEN_VARIABLE)
    else:
        token = ""
    return _over_http(arguments, parsed.port or 0, token)


def _parser() -> CommandParser:
    parser = CommandParser(prog="agent-cli mcp serve", allow_abbrev=False)
    add = parser.add_argument
    add("--http", action="store_true", help="streamable HTTP on 127.0.0.1 instead of stdio")
    add("--port", type=_port, metavar="N", help="default: a free one, which is printed")
    add(
        "--token-file",
        metavar="FILE",
        help=f"holds the token clients send; or set {TOKEN_VARIABLE}; default: a new one, printed",
    )
    return parser


def _over_stdio(arguments: Arguments) -> int:
    from agent_cli.mcp_server.server import make_server  # slow, and --help is quick
    from agent_cli.mcp_server.stdio import serve_stdio

    program = ServedProgram(arguments)
    with program.logging():
        return run_loop(serve_stdio(make_server(program)))


def _over_http(arguments: Arguments, port: int, token: str) -> int:
    """Serve on *port*; without a *token* print a new one."""
    from agent_cli.mcp_server.http import address_of, listen, serve_http
    from agent_cli.mcp_server.server import make_server

    program = ServedProgram(arguments)
    with listen(port) as listener:
        print(f"agent-cli: MCP server on {address_of(listener)}", file=sys.stderr)
        if not token:
            token = secrets.token_urlsafe(32)
            print(f"agent-cli: clients send  Authorization: Bearer {token}", file=sys.stderr)
        program.hide(token)
        with program.logging():
            return run_loop(serve_http(make_server(program), listener, token))


def _token_in(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as opened:
            if os.fstat(opened.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise UsageError(f"{file} can be read by other users: chmod 600 {file}")
            return opened.read().strip()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text; save the token as UTF-8") from None


def _checked(token: str, origin: str) -> str:
    is_plain = token.isascii() and token.isprintable() and " " not in token
    if len(token) < _TOKEN_CHARS_MIN or not is_plain:
        raise UsageError(
            f"{origin}: a token has at least {_TOKEN_CHARS_MIN} ASCII characters and no spaces"
        )
    return token


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _PORT_MAX):
        raise ValueError(text)
    return int(text)


def take_variable(name: str) -> str:
    """Return the variable *name*, and remove it; "" if it is not set.

    Programs that we start inherit the environment. Removing a variable leaves the block in which
    the process got it, which `/proc/PID/environ` shows to all programs of the same user; so its
    value is overwritten there.
    """
    value = os.environ.get(name, "")
    if value and sys.platform == "linux":
        getenv = ctypes.CDLL(None).getenv
        getenv.restype, getenv.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        if address := getenv(os.fsencode(name)):
            ctypes.memset(address, ord("x"), len(ctypes.string_at(address)))
    os.environ.pop(name, None)
    return value
