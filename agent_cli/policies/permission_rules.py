"""The language of permission rules: `tool` or `tool(text)`. The decisions are made elsewhere.

    edit                  every call of the tool; edit(*) is the same
    mcp__github__*        every tool whose name has this prefix; * is every tool
    mcp__github           every tool of that MCP server: mcp__github__*
    bash(npm test)        the command npm test only
    bash(npm test *)      npm test with any arguments
    edit(src/**)          every path below src, by .gitignore rules; edit(*.md) in any folder
    network(*.example.com)  hosts that commands and pages may reach; see `network_rules`
    read_mcp_resource(docs:file:///a/*)   what that server has below this address
    Bash(npm test:*)      a rule in Claude Code's words: bash(npm test *)

`edit` covers write too, and `read` covers grep and glob, which access files in the same way. A path
that begins with / is absolute, one with ~/ is in the home directory, any other in the workspace.
`policies.shell` interprets rules about commands.
"""

import os
import re
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import takewhile
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final, get_args
from urllib.parse import unquote

from agent_cli.contracts.claude_tools import may_match, our_tool_name
from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permissions import NETWORK, Rule, RuleKind
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import as_named, is_dir
from agent_cli.system.records import dataclass

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    from agent_cli.policies.shell import CommandRule, CommandRules, Reach

KINDS: tuple[RuleKind, ...] = get_args(RuleKind)
HOST_GROUP: Final = "registries"
"""In a rule about hosts: all of `network_rules.REGISTRIES`."""

_PATTERN = late_pattern(r"[*?\[]")
_SEARCHES: Final = frozenset({"grep", "glob"})
_SERVER = late_pattern(r"mcp__[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*")
_RULE = late_pattern(r"(?P<tool>[\w-]+\*?|\*)(?:\((?P<text>.*)\))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """All active rules; deny wins over ask, ask over allow.

    Attributes:
        beside: Other folders of the session, such as the main checkout of a worktree: what denies
            or asks in the workspace does so there too.
    """

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    beside: tuple[Path, ...] = ()

    def listed(self) -> Iterator[tuple[RuleKind, Rule]]:
        """Yield every rule with its kind, the strongest first."""
        for kind in reversed(KINDS):
            for rule in self.of(kind):
                yield kind, rule

    def of(self, kind: RuleKind) -> tuple[Rule, ...]:
        """Return the rules of *kind*."""
        return {"allow": self.allow, "ask": self.ask, "deny": self.deny}[kind]

    def denying(self, tool: str) -> Rule | None:
        """Return the rule that denies every call of *tool*, or None."""
        return next((each for each in self.deny if each.text is None and each.names(tool)), None)

    def hides(self, path: PurePath, root: Path, *, kinds: Sequence[RuleKind] = ("deny",)) -> bool:
        """Return whether a rule forbids reading *path*; commands should not read it either."""
        return self.rule_hiding(path, root, kinds=kinds) is not None

    def rule_hiding(
        self, path: PurePath, root: Path, *, kinds: Sequence[RuleKind] = ("deny",)
    ) -> Rule | None:
        """Return the rule that forbids reading *path*, or None."""
        return next(
            (
                rule
                for kind in kinds
                for rule in self.of(kind)
                if rule.names("read")
                and rule.text is not None
                and self._touches_path(rule, str(path), root)
            ),
            None,
        )

    def rule_hiding_named(self, script: str, reach: "Reach") -> tuple[Rule | None, str]:
        """Return the rule that forbids reading a file that *script* names, or None.

        The text says where it names too many to tell, or reads one whose name is not known.
        """
        from agent_cli.policies.shell.named_paths import named_paths  # where a rule hides some
        from agent_cli.policies.shell.reach import OutOfReach
        from agent_cli.policies.shell.unknown_reads import unknown_read

        found = (self.rule_hiding(path, reach.root) for path in named_paths(script, reach))
        try:
            return next(filter(None, found), None), unknown_read(script, reach)
        except OutOfReach as beyond:
            return None, str(beyond)

    def guards_reading(self, paths: Sequence[str], root: Path) -> bool:
        """Return whether a rule forbids reading any of *paths*, or asks first."""
        rules = (*self.deny, *self.ask)
        return any(
            rule.names("read") and self._touches_path(rule, path, root)
            for rule in rules
            for path in paths
        )

    def locks(self, path: PurePath, root: Path) -> bool:
        """Return whether a rule forbids changing *path*; commands must not change it either."""
        denied = self._denied("edit", "write")
        return any(self._touches_path(rule, str(path), root) for rule in denied)

    def touches(self, rule: Rule, tool: str, paths: Sequence[str], root: Path) -> bool:
        """Return whether *rule* covers any of the *paths* of a call, in *root* or `beside`."""
        return any(touches(rule, tool, paths, each) for each in (root, *self.beside))

    def _touches_path(self, rule: Rule, path: str, root: Path) -> bool:
        return any(touches_path(rule, path, each) for each in (root, *self.beside))

    def hidden_elsewhere(self, root: Path) -> Iterator[tuple[Path, int | None]]:
        """Yield the folders outside *root* that rules about reading concern.

        Each comes with the number of levels a rule can match: 0 for the whole folder, None for all.
        """
        for rule in self._denied("read"):
            base, pattern = _anchored(rule.text or "", root)
            if base == root:
                continue
            parts = PurePath(pattern.strip("/")).parts
            plain = list(takewhile(lambda part: not _PATTERN.search(part), parts))
            rest = parts[len(plain) :]
            depth = None if "**" in rest else len(rest)
            yield base.joinpath(*plain), 0 if rest in {("**",), ("*",)} else depth

    def denies_paths(self, *tools: str) -> bool:
        """Return whether a rule denies some paths to any of *tools*."""
        return any(True for _rule in self._denied(*tools))

    def _denied(self, *tools: str) -> Iterator[Rule]:
        for rule in self.deny:
            if rule.text is not None and any(map(rule.names, tools)):
                yield rule

    def for_commands(self) -> "CommandRules":
        """Return the rules about shell commands."""
        from agent_cli.policies.shell import CommandRules  # with the first command

        allow, ask, deny = (
            [_command_rule(rule) for rule in self.of(kind) if rule.names(COMMAND_TOOL)]
            for kind in KINDS
        )
        return CommandRules(allow=allow, ask=ask, deny=deny)


@lru_cache(maxsize=4096)
def parse_rule(written: str, origin: str = "") -> Rule:
    """Parse a rule as written in settings.

    Raises:
        SettingsError: It is not a valid rule.
    """
    found = _RULE.fullmatch(written.strip())
    text = (found["text"] or "").strip() if found else ""
    if not found or (found["text"] is not None and not text):
        raise _no_rule(written, origin)
    tool = our_tool_name(found["tool"])
    if _SERVER.fullmatch(tool):
        tool = f"{tool}__*"
    if tool == COMMAND_TOOL and text.endswith(":*"):
        text = f"{text[:-2]} *"  # Claude Code's older syntax for prefixes
    rule = Rule(tool, None if text in ("", "*", "**") else text, origin)
    if rule.text is None:
        return rule
    if rule.tool == NETWORK:
        _check_host(rule.text, origin)
        return rule
    if rule.names(COMMAND_TOOL):
        try:
            _command_rule(rule)
        except SettingsError as error:
            raise _no_rule(written, origin) from error
        if rule.tool == COMMAND_TOOL and re.search(r"\S\*$", rule.text):
            # In a command a * stands for words; as part of a word it would match nothing.
            raise _no_rule(written, origin)
        return rule
    if rule.text.startswith(("!", "#", "\\")) or ".." in PurePath(rule.text).parts:
        raise _no_rule(written, origin)
    try:
        _spec(rule.text.casefold())
    except (ValueError, re.error) as error:
        raise _no_rule(written, origin) from error
    return rule


def without_matches(rules: RuleSet, tools: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each rule about a tool that is none of *tools*; servers' may come."""
    for kind, rule in rules.listed():
        if not rule.tool.endswith("*") and not may_match(rule.tool, (*tools, NETWORK)):
            yield (
                f"{rule.origin or 'permissions'}: the rule {kind} {rule} matches nothing: there is"
                f" no tool {rule.tool} here"
            )


def rule_for_file(tool: str, path: Path, origin: str) -> Rule:
    """Return a rule that matches only the absolute *path*, special characters escaped."""
    return Rule(tool, re.sub(r"([\\*?\[\]!# ])", r"\\\1", str(path)), origin)


def allows(rule: Rule, tool: str, paths: Sequence[str], root: Path) -> bool:
    """Return whether *rule* covers all *paths* of a call of *tool*, not a command."""
    if not rule.names(tool):
        return False
    return rule.text is None or (
        bool(paths) and all(_matches(rule.text, path, root) for path in paths)
    )


def opens(rule: Rule, tool: str, paths: Sequence[str]) -> bool:
    """Return whether *rule* covers all *paths*, which lie outside, and names such paths itself.

    A rule for every call, or for paths of the workspace, opens nothing outside. A search in a
    folder is covered by a rule that covers everything below it.
    """
    if rule.text is None or not rule.text.startswith(("/", "~/")) or not rule.names(tool):
        return False
    searched = tool in _SEARCHES
    return bool(paths) and all(
        _matches(rule.text, path, Path("/"), is_folder=searched and is_dir(Path(path)))
        for path in paths
    )


def touches(rule: Rule, tool: str, paths: Sequence[str], root: Path) -> bool:
    """Return whether *rule* covers any of the *paths* of a call of *tool*, not a command."""
    if not rule.names(tool):
        return False
    return rule.text is None or any(touches_path(rule, path, root) for path in paths)


def allows_subject(rule: Rule, tool: str, subject: str) -> bool:
    """Return whether *rule* covers a call of *tool* about *subject*, "GROUP:DETAIL".

    The server decides what ".." means, so a rule about a part of its addresses covers none with it.
    """
    if not rule.names(tool):
        return False
    if rule.text is None or rule.text == f"{subject.partition(':')[0]}:*":
        return True
    return ".." not in unquote(subject) and fnmatchcase(subject, rule.text)


def touches_subject(rule: Rule, tool: str, subject: str) -> bool:
    """Return whether *rule* concerns a call of *tool* about *subject*, ignoring case."""
    return rule.names(tool) and (
        rule.text is None
        or fnmatchcase(unquote(subject).casefold(), rule.text.casefold())
        or fnmatchcase(subject.casefold(), rule.text.casefold())
    )


def touches_path(rule: Rule, path: str, root: Path) -> bool:
    """Return whether *rule* matches *path*; case and composition count as little as on macOS."""
    if rule.text is None:
        return True
    # A pattern for any folder also applies outside the root; but a folder above the root with a
    # matching name does not count: the user chose to work in it.
    is_bare = "/" not in rule.text.rstrip("/") and not Path(path).is_relative_to(root)
    base = Path("/") if is_bare else root
    return _matches(rule.text, path, base, fold=True)


def called_paths(call: ToolCall, declared: Sequence[str], root: Path) -> tuple[str, ...]:
    """Return all paths of a call, its `path` and those *declared* by its tool.

    Each stands as written and with links followed, and so does the file that is taken in its place
    because its name only looks the same. A `path` counts as written, and without a mention's @. For
    the system it ends at a NUL.
    """
    path = call.arguments.get("path")
    name = path.partition("\0")[0] if isinstance(path, str) else ""
    written = [name, name.removeprefix("@")] if name else []
    # Not Path.expanduser: it fails for a file whose name starts with "~".
    expanded = map(os.path.expanduser, (*written, *declared))
    # Each once: most are the same, and following the links of a path looks at each of its folders.
    named = dict.fromkeys(os.path.normpath(root / each) for each in expanded)
    named |= dict.fromkeys([str(as_named(Path(each))) for each in named])
    return tuple(dict.fromkeys((*named, *map(os.path.realpath, named))))


def _matches(
    text: str, path: str, root: Path, *, fold: bool = False, is_folder: bool = False
) -> bool:
    base, pattern = _anchored(text, root)
    if fold:
        base, pattern, path = Path(_folded(str(base))), _folded(pattern), _folded(path)
    if not Path(path).is_relative_to(base):
        return False
    below = Path(path).relative_to(base)
    if is_folder:
        return _spec(pattern).match_file(f"{below}/" if below.parts else "//")
    return _spec(pattern).match_file(below)


def _folded(name: str) -> str:
    """Return *name* as file systems compare it that ignore case: also however é is composed."""
    if name.isascii():
        return name.casefold()
    from unicodedata import normalize  # few names need it

    return normalize("NFC", name.casefold())


@lru_cache
def _spec(pattern: str) -> "GitIgnoreSpec":
    from agent_cli.system.path_patterns import path_patterns  # where a rule names paths

    return path_patterns([pattern])


def _anchored(text: str, root: Path) -> tuple[Path, str]:
    """Split a pattern into its folder and the pattern for files below it."""
    if text.startswith("/"):
        return Path("/"), text
    if text.startswith("~/"):
        return Path.home(), text[1:]
    return root, text.removeprefix(".") if text.startswith("./") else text


def _command_rule(rule: Rule) -> "CommandRule":
    from agent_cli.policies.shell import command_rule  # where a rule names one

    return command_rule(rule.text)


def _check_host(text: str, origin: str) -> None:
    if text == HOST_GROUP:
        return
    from agent_cli.system.addresses import (  # few have such rules
        HTTPS_PORT,
        BadHostError,
        parse_authority,
    )

    try:
        parse_authority(text.removeprefix("*."), default=HTTPS_PORT)
    except BadHostError as error:
        raise SettingsError(
            f"{origin or 'permissions'}: network({text}) names no host: write network(example.com),"
            f" network(*.example.com), network(example.com:8443) or network({HOST_GROUP})"
        ) from error


def _no_rule(written: str, origin: str) -> SettingsError:
    return SettingsError(
        f"{origin or 'permissions'}: {written!r} is not a rule: write a tool name, or a tool name"
        " with a pattern like bash(npm test *) or edit(src/**); in a command, * may only be the"
        " last word; a path must not contain .."
    )


COMMAND_TOOL: Final = "bash"


def command_of(call: ToolCall) -> str:
    """Return the command of a shell call; "" if it names none."""
    return str(call.arguments.get("command", ""))


def leaves_sandbox(call: ToolCall) -> bool:
    """Return whether a shell call asks to run outside the sandbox.

    Any value that may be parsed as true counts as true.
    """
    return call.arguments.get("unsandboxed", False) is not False


def runs_on(call: ToolCall) -> bool:
    """Return whether a shell call is to run in the background."""
    return call.arguments.get("background", False) is not False
