"""Headers that a command of the user makes: `headersHelper`, as Claude Code has it.

The command is trusted like that of a server on this machine: it stands in a file of the user's or
of a trusted project, and the question about trust shows it. It prints a JSON object of headers.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agent_cli.contracts.errors import SettingsError
from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.stderr_tail import printable
from agent_cli.system.asked_program import ProgramAnswer, TooMuchOutput, ask_program
from agent_cli.system.child_environment import child_environment
from agent_cli.system.shapes import is_object

_LIMIT_S: Final = 10.0
_QUOTED_CHARS: Final = 200
_SHELL: Final = "/bin/sh"
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""RFC 9110, section 5.6.2: a token."""


async def all_headers(config: ServerConfig, environment: Mapping[str, str]) -> dict[str, str]:
    """Return a server's headers; a header from its helper replaces another of the same name.

    Raises:
        SettingsError: The helper failed; what it printed as headers is not quoted.
    """
    if not config.headers_helper:
        return dict(config.headers)
    helped = _headers(await _answer(config, environment))
    replaced = {name.lower() for name in helped}
    kept = {name: each for name, each in config.headers.items() if name.lower() not in replaced}
    return kept | helped


async def _answer(config: ServerConfig, environment: Mapping[str, str]) -> ProgramAnswer:
    # Claude Code's names, which helpers shared by several servers read.
    about = {"CLAUDE_CODE_MCP_SERVER_NAME": config.name, "CLAUDE_CODE_MCP_SERVER_URL": config.url}
    try:
        async with asyncio.timeout(_LIMIT_S):
            return await ask_program(
                [_SHELL, "-c", config.headers_helper],
                b"",
                environment=child_environment(environment, about),
                workspace=Path(config.cwd or Path.home()),
            )
    except TimeoutError:
        raise SettingsError(f"its headersHelper took longer than {_LIMIT_S:g} s") from None
    except TooMuchOutput:
        raise SettingsError("its headersHelper printed more than 1 MB") from None
    except OSError as error:
        raise SettingsError(f"its headersHelper cannot be started: {error.strerror}") from error


def _headers(answer: ProgramAnswer) -> dict[str, str]:
    if answer.code:
        printed = " ".join(printable(answer.stderr).split())[-_QUOTED_CHARS:]
        tail = f": {printed}" if printed else ""
        raise SettingsError(f"its headersHelper ended with exit code {answer.code}{tail}")
    try:
        given = json.loads(answer.stdout)
    except (ValueError, RecursionError):
        given = None
    if not is_object(given):
        raise SettingsError('its headersHelper must print a JSON object: {"Authorization": "..."}')
    headers: dict[str, str] = {}
    for name, value in given.items():
        is_header = isinstance(value, str) and value.isprintable() and _NAME.fullmatch(name)
        if not (isinstance(value, str) and is_header):
            raise SettingsError(
                f"its headersHelper printed {printable(name)[:_QUOTED_CHARS]!r}, which is no header"
                " with a text of one line"
            )
        headers[name] = value
    return headers
