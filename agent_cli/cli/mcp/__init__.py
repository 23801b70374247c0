"""The `agent-cli mcp` commands: their servers, stores, output streams, and their parser."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.servers import ServerState
from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.config import ServerConfig, ServerProblem
from agent_cli.system.records import dataclass
from agent_cli.system.sanitize import reveal

if TYPE_CHECKING:
    from agent_cli.terminal.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """The context of one command.

    Attributes:
        configured: The servers of settings and files, read when a command needs them.
        is_strangers: Whether a file of another program may be an untrusted stranger's.
        out: Receives results.
        err: Receives questions, and progress if it is a terminal.
    """

    environment: Mapping[str, str]
    configured: Callable[[], Sequence[ServerConfig | ServerProblem]]
    workspace: Path
    is_strangers: Callable[[Path], bool]
    out: TextIO
    err: TextIO

    def server(self, name: str) -> ServerConfig:
        """Return the server of that name.

        Raises:
            UsageError: There is none, or it cannot be used.
        """
        found = self.server_entry(name)
        if isinstance(found, ServerProblem):
            raise UsageError(found.reason)
        return found

    def server_entry(self, name: str) -> ServerConfig | ServerProblem:
        """Return the server of that name, or why it cannot be used.

        Raises:
            UsageError: There is none.
        """
        configured = self.configured()
        found = next((each for each in configured if each.name == name), None)
        if found is None:
            known = ", ".join(each.name for each in configured) or "none"
            raise UsageError(f"there is no MCP server {name!r}; there are: {known}")
        return found

    def refuse_elsewhere(self, name: str) -> None:
        """Refuse to remove a server that comes from another place than the commands' files.

        Raises:
            UsageError: There is such a server.
        """
        for found in self.configured():
            if found.name == name and isinstance(found, ServerConfig):
                raise UsageError(
                    f"{name} comes from {found.source}: remove it there, or switch it off here:"
                    f" agent-cli mcp disable {name}"
                )

    def say(self, *lines: str) -> None:
        """Print lines of the result, without control characters of a server."""
        print(*map(reveal, lines), sep="\n", file=self.out, flush=True)

    def tell(self, text: str) -> None:
        """Print one line that is not part of the result, such as a question."""
        print(reveal(text), file=self.err, flush=True)

    def show(self, view: "View") -> None:
        """Draw a view on a terminal; elsewhere print one line per record."""
        from agent_cli.terminal.views import show  # rich

        show(view, self.out)

    def print_json(self, value: Json) -> None:
        """Print *value* as ASCII, so that untrusted names cannot control the terminal."""
        print(json.dumps(value, indent=2), file=self.out)

    def explain(self, state: ServerState) -> None:
        """Print why a server cannot be used, and the lines of its standard error not yet quoted."""
        self.say(state.reason)
        for line in state.unquoted:
            self.say(f"  │ {line}")


class CommandParser(argparse.ArgumentParser):
    """Reports errors in the style of the program."""

    def error(self, message: str) -> NoReturn:
        """Raise the error as one sentence."""
        name = self.prog.removeprefix("agent-cli ")  # which precedes the sentence
        raise UsageError(f"{name}: {message}; see {self.prog} --help")
