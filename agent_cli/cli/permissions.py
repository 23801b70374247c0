"""`agent-cli permissions explain` and `agent-cli trust`: what may act here, and why."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.app import parts
from agent_cli.app.arguments import Arguments
from agent_cli.app.mcp import configured_servers
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.claude_tools import OF_SERVERS
from agent_cli.contracts.errors import ToolError, UsageError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import CALL_AGAIN, Allow, Ask, Deny, Tool, check_input
from agent_cli.contracts.wording import first_named
from agent_cli.mcp_client import Host, ServerConfig
from agent_cli.policies.decisions import Decision
from agent_cli.policies.permission_rules import COMMAND_TOOL
from agent_cli.sandbox import Report
from agent_cli.system.paths import is_dir, real_path
from agent_cli.system.records import dataclass
from agent_cli.system.sanitize import reveal
from agent_cli.terminal.abilities import confirmed
from agent_cli.terminal.writer import print_fitted
from agent_cli.trust.store import TrustStore, fingerprint

if TYPE_CHECKING:
    from agent_cli.terminal.views import Drawn
    from agent_cli.terminal.views.table import Facts
    from agent_cli.trust.effects import ActingFile
    from agent_cli_tools.workspace import Workspace

_STYLES = {"allow": "green", "ask": "yellow", "deny": "bold red"}
_VERDICTS = {Allow: "allow", Ask: "ask", Deny: "deny"}
_NAMED_MAX = 4


@dataclass(frozen=True, slots=True)
class Explanation:
    """A view of the verdict on a call and its reasons."""

    facts: Sequence[tuple[str, str]]

    def drawn(self) -> "Drawn":
        """Return the renderable for a terminal, with the verdict in its colour."""
        return self._view().drawn()

    def lines(self) -> Sequence[str]:
        """Return `title: text` for each fact."""
        return self._view().lines()

    def as_json(self) -> str:
        """Return a JSON object; `command` holds every command found in the input."""
        found: dict[str, Json] = {title: text for title, text in self.facts if title != "command"}
        commands: list[Json] = [text for title, text in self.facts if title == "command"]
        return json.dumps({**found, "command": commands}, ensure_ascii=False, indent=2)

    def _view(self) -> "Facts":
        from agent_cli.terminal.views.table import Fact, Facts  # rich

        return Facts(
            [
                Fact(title, text, _STYLES.get(text, "") if title == "verdict" else "")
                for title, text in self.facts
            ]
        )


def explain(startup: StartupContext, name: str, written: str) -> Explanation:
    """Return the verdict, the rule with its origin, the commands found, mode and sandbox.

    Args:
        name: A tool's name.
        written: Its input as JSON; or, for bash, just the command; for other tools, just the path.

    Raises:
        SettingsError: A permission rule cannot be read.
        UsageError: There is no such tool, or the input is not valid for it.
    """
    sandbox, workspace = parts.sandbox(startup), parts.workspace(startup)
    permissions = parts.permissions(startup, sandbox, workspace, grants=True)
    tool = _tool(startup, workspace, name)
    call = ToolCall("explained", name, _input(name, written))
    try:
        params = check_input(tool, call.input)
        report = sandbox.report or sandbox.probe()
        decision = permissions.decide(call, tool, params, report)
    except ToolError as error:
        raise UsageError(str(error).removesuffix(CALL_AGAIN)) from error
    finally:
        workspace.close()
        sandbox.close()
    lines = _lines(startup, decision, report, permissions.mode)
    return Explanation([(title, reveal(text)) for title, text in lines])


def _tool(startup: StartupContext, workspace: "Workspace", name: str) -> Tool:
    tools = {tool.name: tool for tool in parts.tools(startup, workspace)}
    if name in tools:
        return tools[name]
    if name.startswith(OF_SERVERS):
        # No server is started for this: a tool never approved counts as one that changes things,
        # and one whose definition changed since is asked about again.
        return Tool(
            name=name,
            label=name,
            description="",
            parameters={"type": "object"},
            execute=_never,
            changes=not _reads_unasked(startup, name),
        )
    raise UsageError(f"there is no tool {name}; there are {', '.join(tools)}, and those of servers")


def _reads_unasked(startup: StartupContext, name: str) -> bool:
    """Return whether the tool of a server was approved as read-only."""
    pins = Host().pins
    servers = (each for each in configured_servers(startup) if isinstance(each, ServerConfig))
    return any(pins.reads_unasked(server, name) for server in servers)


async def _never(*_call: object) -> str:
    raise AssertionError("an explained call never runs")


def _input(name: str, text: str) -> Json:
    try:
        value: Json = json.loads(text)
    except ValueError:
        value = text
    if isinstance(value, dict):
        return value
    if name == COMMAND_TOOL:
        return {"command": text}
    # Only the path matters for the decision; other parameters need not be given.
    more: dict[str, dict[str, Json]] = {
        "write": {"content": ""},
        "edit": {"edits": [{"old": "a", "new": "b"}]},
        "grep": {"pattern": "."},
        "glob": {"pattern": "*"},
    }
    return {"path": text, **more.get(name, {})}


def _lines(
    startup: StartupContext, decision: Decision, report: Report, mode: str
) -> Iterator[tuple[str, str]]:
    if decision.is_attempted:
        yield "verdict", "allow if it only reads, else ask"
        yield "why", f"runs read-only first; if that is refused, it asks: {decision.why}"
    else:
        yield "verdict", _VERDICTS[type(decision.verdict)]
        yield "why", decision.why
    if decision.rule:
        yield "rule", f"{decision.rule}  ({decision.rule.origin})"
    else:
        yield "rule", "none"
    for command in decision.commands:
        yield "command", command
    yield "mode", mode
    yield "sandbox", report.sentence
    yield "workspace", f"{startup.workspace} ({'trusted' if startup.trusted else 'not trusted'})"


def trust(arguments: Arguments) -> int:
    """Trust a workspace with the listed effects; a person at a terminal is asked after the list.

    With `--show` it is only listed, with the text of the scripts that hooks run.
    """
    workspace = real_path(Path(*arguments.operands))
    if not is_dir(workspace):
        raise UsageError(f"{workspace} is not a directory")
    store, name = TrustStore.of_user(), reveal(str(workspace))
    if arguments.revoke:
        known = store.revoke(workspace)
        print(f"{name} is {'no longer' if known else 'not'} trusted")
        if below := store.trusted_below(workspace):
            named = first_named([*map(reveal, below)], _NAMED_MAX)
            print(f"still trusted by themselves: {named}; --revoke FOLDER ends that")
        return 0
    from agent_cli.trust.effects import what_would_act  # which other commands do without

    # Before the list: what changes while it is read is not trusted.
    shown = fingerprint(workspace)
    files = what_would_act(workspace)
    _list(files, workspace, whole=arguments.show)
    if arguments.show:
        print(f"it is {'' if store.is_trusted(workspace) else 'not '}trusted")
        return 0
    asks = bool(files) and sys.stdin.isatty() and not arguments.yes
    if asks and not confirmed("Trust them, until they change?"):
        print("it is not trusted")
        return 1
    store.trust(workspace, shown)
    print(f"{name} is trusted until that changes")
    if any(file.change for file in files):
        print("a session that is open there keeps the hooks, rules and settings of its start")
    return 0


def _list(files: "Sequence[ActingFile]", workspace: Path, *, whole: bool) -> None:
    if not files:
        print_fitted(f"{workspace} holds no files that change what agent-cli does", sys.stdout)
        return
    from agent_cli.trust.effects import listing  # most workspaces have no files

    print_fitted(f"{workspace} holds files that change what agent-cli does:", sys.stdout)
    for line in listing(files, workspace, whole=whole):
        print_fitted(line, sys.stdout)
    sys.stdout.flush()
