"""The programs whose setups are read."""

from collections.abc import Callable, Mapping
from typing import Final

from agent_cli.app.imports.claude import read_claude
from agent_cli.app.imports.codex import read_codex
from agent_cli.app.imports.findings import Findings
from agent_cli.app.imports.gemini import read_gemini
from agent_cli.app.imports.opencode import read_opencode
from agent_cli.app.startup import StartupContext

READERS: Final[Mapping[str, Callable[[StartupContext], Findings]]] = {
    "claude": read_claude,
    "codex": read_codex,
    "gemini": read_gemini,
    "opencode": read_opencode,
}
