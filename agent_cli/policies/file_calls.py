"""Decide about the calls of all tools but the shell: by the rules, the files, and the mode."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Protocol

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permission_modes import EDITING, Mode
from agent_cli.contracts.permissions import NETWORK, Rule, RuleKind
from agent_cli.contracts.tooling import Ask, Tool
from agent_cli.policies.decisions import (
    WRITERS,
    Decision,
    allowed,
    asked,
    denied,
    denied_by,
    denied_by_plan,
)
from agent_cli.policies.permission_rules import (
    RuleSet,
    allows,
    allows_subject,
    called_paths,
    opens,
    touches_subject,
)
from agent_cli.policies.shell.reach import Objection, Reach
from agent_cli.sandbox.guarded_files import HOLDS_HOOKS, what_it_starts, why_protected
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import identity, is_too_long, shown
from agent_cli.system.records import dataclass

_FILE_TOOLS = WRITERS | {"read", "grep", "glob"}
_READ_BY_GIT = "is named in the configuration or the hooks of git, which reads it or runs it"
_SAME_FOR_GIT = "is another name of a file that git reads or runs"
_IS_RUN = "is run or imported outside the sandbox: by agent-cli itself, or found on PATH"
# Characters with a special meaning in a rule.
_PATTERN = late_pattern(r"[*?\[\]!#\\()]|\s$")


class Access(Protocol):
    """Port to the workspace that the file tools share."""

    def obstacle(self, written: str, *, to_write: bool) -> tuple[str, str]:
        """Return the error with which a tool would refuse the path *written*, or "".

        Then its real path, if the only obstacle is that it lies outside, else "".
        """
        ...

    def open_path(self, path: str) -> None:
        """Let the tools use the real *path*; the policy still decides about each call."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCalls:
    """Facts for decisions about file calls, beyond the rules and the mode.

    Attributes:
        reach: The workspace.
        own_dirs: Directories of this program.
        access: The paths the tools refuse by themselves; None if no rule can open more.
        grants: Whether a person can grant paths outside.
    """

    reach: Reach
    own_dirs: Sequence[Path] = ()
    access: Access | None = None
    grants: bool = True

    def decide(
        self, call: ToolCall, tool: Tool, params: object, *, rules: RuleSet, mode: Mode
    ) -> Decision:
        """Decide about a call; a deny rule wins over everything, plan mode over the rest."""
        decision = self._decide(call, tool, params, rules=rules, mode=mode)
        if not isinstance(decision.verdict, Ask) or decision.opens:
            return decision
        paths = called_paths(call, (*tool.reads(params), *tool.writes(params)), self.reach.root)
        may_read = not rules.guards_reading(paths, self.reach.root)
        return replace(decision, verdict=replace(decision.verdict, may_read=may_read))

    def _decide(
        self, call: ToolCall, tool: Tool, params: object, *, rules: RuleSet, mode: Mode
    ) -> Decision:
        writes = tool.writes(params)
        touched = writes if tool.changes else (*tool.reads(params), *writes)
        paths = called_paths(call, touched, self.reach.root)
        matching = _Matching(rules, tool.name, tool.subject(params), paths, self.reach.root)
        if rule := matching.first("deny"):
            return denied_by(rule)
        if mode == "plan" and tool.changes:
            return denied_by_plan()
        if tool.changes and (why := self._protection(paths)):
            return _protected(tool, why)
        refusal, outside = self._obstacle(call, tool, touched)
        if refusal and not outside and self.grants:
            return denied(refusal, refusal)
        rule = matching.first("allow")
        if outside:
            is_named, rule = bool(rule), matching.opening()
            if not rule and not self.grants:
                decision = _by_mode(tool, params, mode, writes_inside=False)
                is_asked = isinstance(decision.verdict, Ask) and not is_named
                return decision if is_asked else denied(refusal, refusal)
        if question := self._question(call, tool, matching, opened=outside if rule else ""):
            return replace(question, opens=outside)
        if rule:
            return replace(allowed(f"allowed by the rule {rule}", rule=rule), opens=outside)
        if outside:
            return _outside(tool, outside)
        writes_inside = bool(writes) and all(map(self._holds, paths))
        return _by_mode(tool, params, mode, writes_inside=writes_inside)

    def _obstacle(self, call: ToolCall, tool: Tool, touched: Sequence[str]) -> tuple[str, str]:
        """Return the error with which a file tool would refuse the call, as `Access.obstacle`."""
        written = call.arguments.get("path")
        if not (self.access and tool.name in _FILE_TOOLS and isinstance(written, str) and written):
            return "", ""
        # Not the path as given, if possible: a symlink in it may lead elsewhere by now.
        return self.access.obstacle(touched[0] if touched else written, to_write=tool.changes)

    def _question(
        self, call: ToolCall, tool: Tool, matching: "_Matching", *, opened: str
    ) -> Decision | None:
        """Return the question that no allow rule answers, or None."""
        if tool.changes and (why := self._starts(matching.paths)):
            return asked(why)
        if asking := matching.first("ask"):
            return asked(f"the rule {asking} asks", rule=asking)
        objection = self._hidden_below(call, matching.paths, matching.rules, opened)
        return asked(objection) if objection else None

    def _protection(self, paths: Sequence[str]) -> str | None:
        """Return the reason that any of *paths* is write-protected, or None."""
        for path, root in self._below_roots(paths):
            if why := why_protected(path, root, self.own_dirs):
                return f"{path.name} is {why}"
        return None

    def _starts(self, paths: Sequence[str]) -> str | None:
        """Return the effect on other programs of changing any of *paths*, or None."""
        for path, root in self._below_roots(paths):
            if what := what_it_starts(path, root) or _git_starts(path) or self._runs(path):
                return f"{os.path.relpath(path, root)} {what}"
        return None

    def _runs(self, path: Path) -> str | None:
        """Return what *path* is if this program or the user's programs are run from it, or None."""
        from agent_cli.sandbox.acting import (  # with a change
            executed_inside,
            linked_from_home,
        )

        roots = (self.reach.root, *self.reach.extra_dirs)
        if any(map(path.is_relative_to, executed_inside(roots))):
            return _IS_RUN
        linked = linked_from_home(roots)
        named = next((linked[each] for each in linked if path.is_relative_to(each)), None)
        return f"is {shown(named)}, which programs outside start from" if named else None

    def _below_roots(self, paths: Sequence[str]) -> list[tuple[Path, Path]]:
        roots = (self.reach.root, *self.reach.extra_dirs, *self.own_dirs)
        # Each folder of a path that nothing can open would be looked up, for minutes.
        return [
            (path, root)
            for path in map(Path, paths)
            for root in roots
            if path.is_relative_to(root) and not is_too_long(str(path).removeprefix(str(root)))
        ]

    def _hidden_below(
        self, call: ToolCall, paths: Sequence[str], rules: RuleSet, opened: str
    ) -> str | None:
        """Return the objection to a search that would read files hidden by a rule, or None.

        *opened* is a folder outside that a rule opens to the search, or "".
        """
        root = self.reach.root
        if call.name != "grep" or not any(
            rule.names("read") and rule.text for rule in (*rules.deny, *rules.ask)
        ):
            return None

        def is_secret(path: PurePath) -> bool:
            return rules.hides(path, root, kinds=("deny", "ask"))

        reach = replace(self.reach, is_secret=is_secret, why_secret="is hidden by a rule")
        if opened:
            reach = replace(reach, extra_dirs=(*reach.extra_dirs, Path(opened)))
        try:
            for path in paths or [str(root)]:
                if self._holds(path) or opened:
                    reach.check_tree(path, path)
        except Objection as objection:
            return str(objection)
        return None

    def _holds(self, path: str) -> bool:
        return any(map(Path(path).is_relative_to, (self.reach.root, *self.reach.extra_dirs)))


@dataclass(frozen=True, slots=True)
class _Matching:
    """The rules that match one call, by its *subject* or else by its *paths*."""

    rules: RuleSet
    tool: str
    subject: str
    paths: Sequence[str]
    root: Path

    def first(self, kind: RuleKind) -> Rule | None:
        """Return the first rule of *kind* that matches, or None."""
        return next((rule for rule in self.rules.of(kind) if self._matches(rule, kind)), None)

    def opening(self) -> Rule | None:
        """Return the first allow rule that opens the paths, which lie outside, or None."""
        return next((rule for rule in self.rules.allow if opens(rule, self.tool, self.paths)), None)

    def _matches(self, rule: Rule, kind: RuleKind) -> bool:
        if rule.tool == NETWORK:
            return _covers_page(rule, kind, self.tool, self.subject)
        if self.subject:
            about = allows_subject if kind == "allow" else touches_subject
            return about(rule, self.tool, self.subject)
        about_paths = allows if kind == "allow" else self.rules.touches
        return about_paths(rule, self.tool, self.paths, self.root)


def _by_mode(tool: Tool, params: object, mode: Mode, *, writes_inside: bool) -> Decision:
    """Decide about a call that no rule is about and that stays inside the workspace."""
    doubt = "" if tool.changes else tool.doubt(params)
    if not tool.changes and not doubt:
        return allowed("only reads")
    if mode == "yolo":
        return allowed("allowed by the mode yolo")
    if mode in EDITING and writes_inside:
        return allowed(f"allowed by the mode {mode}")
    if doubt:
        text = tool.remembered(params)
        always = (f"{tool.name}({text})",) if text and _is_plain(text) else ()
        return replace(asked(doubt, by_mode=True), rules=always)
    effect = "changes files" if tool.name in WRITERS else "may have side effects"
    return asked(effect, by_mode=True)


def _covers_page(rule: Rule, kind: RuleKind, tool: str, subject: str) -> bool:
    from agent_cli.policies.network_rules import covers_page  # few have such rules

    return covers_page(rule, kind, tool, subject)


def _is_plain(text: str) -> bool:
    """Return whether a rule with *text* is clear: no special character but a * for all details."""
    return not _PATTERN.search(text.removesuffix(":*"))


def _git_starts(path: Path) -> str | None:
    """Return what *path* is if configuration or hooks of its repository lead there, or None."""
    from agent_cli.sandbox.git_folders import git_folders  # with the first change

    folders = git_folders(path.parent)
    for named in folders.named:
        if path.is_relative_to(named):
            return _READ_BY_GIT if path == named else HOLDS_HOOKS
    known = identity(path)  # a hard link has no target
    of_git = (each for top in folders.protected for each in (top, *top.glob("*")))
    return _SAME_FOR_GIT if known and known in map(identity, of_git) else None


def _protected(tool: Tool, why: str) -> Decision:
    # The tools refuse these paths themselves, so asking would be useless.
    if tool.name in WRITERS:
        return denied(
            why, f"{why}, so the tools do not change it. Tell the user what to change, and why."
        )
    return asked(why)


def _outside(tool: Tool, path: str) -> Decision:
    """Return the question whether a tool may use *path* once, or its folder from now on."""
    family = "edit" if tool.changes else "read"
    folder = path if Path(path).is_dir() else str(Path(path).parent)
    is_plain = folder != "/" and not _PATTERN.search(folder)
    question = asked(f"{path} is outside the workspace")
    return replace(question, opens=path, rules=(f"{family}({folder})",) if is_plain else ())
