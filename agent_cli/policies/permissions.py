"""Decide whether a call may run: by rules, knowledge of the call, the mode, or a person.

`policies.shell` knows the effects of shell commands; the sandbox restricts them at run time.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from agent_cli.contracts.errors import SettingsError, ToolError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.options import AUTO_ALLOW, AutoAllow
from agent_cli.contracts.permission_modes import STRICTNESS, Mode, stricter
from agent_cli.contracts.permissions import ApprovalFacts, ExplainedPart, Rule, RuleKind, RuleScope
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Allow, Ask, Deny, Tool, Verdict, check_input
from agent_cli.contracts.wording import ASKED_BY_HOOK, MOVED
from agent_cli.policies.command_calls import CommandCalls
from agent_cli.policies.decisions import (
    Decision,
    attempted,
    during,
    facts_about,
    is_covered,
    session_rules,
)
from agent_cli.policies.file_calls import Access, FileCalls
from agent_cli.policies.permission_rules import (
    COMMAND_TOOL,
    RuleSet,
    command_of,
    parse_rule,
    without_matches,
)
from agent_cli.policies.shell.reach import Reach
from agent_cli.sandbox.report import Report
from agent_cli.system.paths import real_path
from agent_cli.system.records import dataclass

_THIS_SESSION = "this session"
_NO_RULES = RuleSet()
_NOTHING_ASKED = ApprovalFacts()


@dataclass(frozen=True, slots=True)
class ProjectRules:
    """Port to the project's rule file: `add` writes allow rules into `file`.

    `add_everywhere` writes them for every project. `remove` takes those out that its function
    chooses, and returns whether one of them held everywhere.
    """

    file: Path
    add: Callable[[Sequence[str]], None]
    add_everywhere: Callable[[Sequence[str]], None] | None = None
    remove: Callable[[Callable[[str], bool]], bool] = lambda _is_meant: False


class Permissions:
    """Fills `authorize_tool`. A deny rule wins over everything, plan mode over the rest.

    Then, in this order: reasons to ask in every mode (ask rules, protected files, irreversible
    commands, commands outside the sandbox); allow rules, those of the session too; read-only calls;
    the mode.

    Attributes:
        mode: "ask" asks before every change; "auto-edit" lets tools write the files they name, and
            runs commands that the sandbox contains; "auto" does the same, and `policies.judge`
            answers what is left to ask; "plan" refuses every change; "yolo" asks only
            where every mode asks. Read-only calls run in every mode.
    """

    def __init__(
        self,
        reach: Reach,
        *,
        rules: RuleSet = _NO_RULES,
        mode: Mode = "ask",
        auto_allow: AutoAllow = AUTO_ALLOW,
        trusted: bool = False,
        own_dirs: Sequence[Path] = (),
        sandbox: Callable[[], Awaitable[Report]] | None = None,
        project_rules: ProjectRules | None = None,
        access: Access | None = None,
        grants: bool = True,
        unkept: Callable[[str], str] = lambda _command: "",
    ) -> None:
        """Create the policy of a session.

        Args:
            reach: What commands see without a sandbox.
            auto_allow: The modes in which sandboxed commands run without approval.
            trusted: The user trusts the workspace, including programs its git configuration names.
            own_dirs: Directories of this program.
            sandbox: Returns the sandbox's report once it is known; None without a sandbox.
            project_rules: Stores rules for this workspace, if that is allowed.
            access: The file tools' workspace; a rule opens paths to it, a person too if *grants*.
            unkept: Returns a sentence if what a command changes is not kept for an undo, else "".
        """
        self._unkept = unkept
        self.mode: Mode = mode
        self._all_rules = rules
        self._taken_back: list[Rule] = []
        self._access = access
        self._commands = CommandCalls(reach=reach, auto_allow=auto_allow, trusted=trusted)
        self._files = FileCalls(reach=reach, own_dirs=own_dirs, access=access, grants=grants)
        self._sandbox = sandbox
        self._project_rules = project_rules
        self._asked: dict[str, ApprovalFacts] = {}
        self._own_questions: set[str] = set()
        self._attempted: set[tuple[str, str]] = set()
        self._paths_asked: dict[str, tuple[Json, Sequence[str]]] = {}

    async def __call__(
        self, call: ToolCall, tool: Tool, params: object, *, mode: Mode | None = None
    ) -> Verdict:
        """Decide about a call whose input is valid, right before it runs.

        A stricter *mode* replaces this policy's own.
        """
        is_command = call.name == COMMAND_TOOL
        report: Report | None = None
        if self._sandbox and is_command:
            # Without resources to try it, it is as none: the start of the command says why.
            with suppress(OSError):
                report = await self._sandbox()
        mode = stricter(self.mode, mode or self.mode)
        decided = self._decided(call, tool, params, report)
        decision = self._or_attempted(call, tool, report, mode, decided(mode))
        if isinstance(decision.verdict, Ask) and not is_command:
            paths = (*tool.reads(params), *tool.writes(params))
            if self._is_other_question(call, paths):
                return Deny(MOVED)
        if decision.opens and self._access:
            # A call with a question runs only after a person allowed that very call.
            self._access.open_path(decision.opens)
        if isinstance(decision.verdict, Ask):
            rules = decision.rules
            if decision.by_mode and not rules:
                rules = session_rules(call, self._commands.reach_in(report))
            unkept = self._unkept(command_of(call)) if is_command else ""
            verdicts: dict[Mode, Verdict] = {
                each: decided(each).verdict for each in STRICTNESS if each != mode
            }
            self._asked[call.id] = ApprovalFacts(
                rules,
                (
                    *facts_about(call, decision.rule, report, self._reach),
                    *filter(None, (unkept,)),
                ),
                is_danger=not decision.by_mode and decision.rule is None,
                looser_modes=tuple(m for m, v in verdicts.items() if isinstance(v, Allow)),
                refusing_modes=tuple(m for m, v in verdicts.items() if isinstance(v, Deny)),
            )
        else:
            self._asked.pop(call.id, None)  # A hook may have changed its input since.
        taken_back = [*self._taken_back]
        return during(
            decision.verdict,
            mode,
            lambda: self.mode,
            unless=lambda: any(each not in taken_back for each in self._taken_back),
        )

    def decide(
        self,
        call: ToolCall,
        tool: Tool,
        params: object,
        report: Report | None = None,
        *,
        mode: Mode | None = None,
    ) -> Decision:
        """Decide about a call without remembering it; *report* describes the sandbox."""
        mode = stricter(self.mode, mode or self.mode)
        decision = self._decided(call, tool, params, report)(mode)
        return self._or_attempted(call, tool, report, mode, decision)

    def _or_attempted(
        self, call: ToolCall, tool: Tool, report: Report | None, mode: Mode, decision: Decision
    ) -> Decision:
        if not (call.name == COMMAND_TOOL and decision.by_mode and tool.attempt):
            return decision
        attempt = (call.id, command_of(call))
        if attempt in self._attempted or not self._commands.may_attempt(call, report, mode):
            return decision
        return attempted(decision, lambda: self._attempted.add(attempt))

    def _decided(
        self, call: ToolCall, tool: Tool, params: object, report: Report | None
    ) -> Callable[[Mode], Decision]:
        """Return what decides about *call* in a mode; a command is judged once for all of them."""
        if call.name == COMMAND_TOOL:
            return self._commands.decide(call, report, rules=self._rules)
        return lambda mode: self._files.decide(call, tool, params, rules=self._rules, mode=mode)

    def asked_about(self, call: ToolCall) -> ApprovalFacts:
        """Return the rules that "always" would add, and the facts needed to decide."""
        return self._asked.get(call.id, _NOTHING_ASKED)

    def explain(self, call: ToolCall) -> tuple[ExplainedPart, ...]:
        """Return what each part of a command does; nothing for a call that is no command."""
        if call.name != COMMAND_TOOL:
            return ()
        from agent_cli.policies.shell.explain import explained  # on request

        return explained(command_of(call), self._reach.root)

    def note_asked(self, call: ToolCall, facts: Sequence[str]) -> None:
        """Store another place's facts about *call*; no rule here would cover it."""
        self._asked[call.id] = ApprovalFacts(facts=tuple(facts))

    def add_fact(self, call: ToolCall, fact: str) -> None:
        """Add *fact* to what the question about *call* shows."""
        known = self.asked_about(call)
        self._asked[call.id] = replace(known, facts=(*known.facts, fact))

    def ask_each_time(self, call: ToolCall) -> None:
        """Let no rule and no other mode answer the question about *call*: a hook asks it."""
        self._asked[call.id] = replace(self.asked_about(call), rules=(), looser_modes=())

    async def recall(self, call: ToolCall, tools: Iterable[Tool]) -> None:
        """Recompute the facts about *call* if another process asked about it."""
        if call.id not in self._asked:
            for tool in (tool for tool in tools if tool.name == call.name):
                if tool.asks_person:
                    self._own_questions.add(call.id)
                with suppress(ToolError):  # Its input may no longer be valid.
                    verdict = await self(call, tool, check_input(tool, call.input))
                    is_own = ASKED_BY_HOOK not in call.reason
                    is_new = isinstance(verdict, Ask) and verdict.reason not in call.reason
                    if isinstance(verdict, Ask) and is_new and (is_own or not verdict.by_mode):
                        # Since the question, a symlink may lead its path elsewhere.
                        self.add_fact(call, verdict.reason)
                    if not is_own:
                        self.ask_each_time(call)

    def remember(self, call: ToolCall, origin: str = _THIS_SESSION) -> None:
        """Allow calls like this one for the rest of the session; *origin* names the source."""
        for written in self.asked_about(call).rules:
            self._allow(parse_rule(written, origin))

    @property
    def project_file(self) -> Path | None:
        """The file that stores rules for this project; None if they cannot be stored."""
        return self._project_rules.file if self._project_rules else None

    def remember_for_project(self, call: ToolCall) -> None:
        """Allow calls like this one in this workspace from now on.

        Raises:
            SettingsError: The rules cannot be stored, so nothing is allowed.
        """
        if self._project_rules and (rules := self.asked_about(call).rules):
            self._project_rules.add(rules)
        self.remember(call, str(self.project_file or _THIS_SESSION))

    def allow_rule(self, written: str, tools: Iterable[str]) -> Rule:
        """Allow what *written* covers, in this project from now on, or in this session only.

        Raises:
            SettingsError: It is no rule, is about none of *tools*, or cannot be stored.
        """
        rule = parse_rule(written)
        if why := next(without_matches(RuleSet(allow=(rule,)), [*tools]), None):
            raise SettingsError(why)
        if self._project_rules:
            self._project_rules.add((written,))
        self._allow(replace(rule, origin=str(self.project_file or _THIS_SESSION)))
        return rule

    def rules_named(self, written: str) -> list[tuple[RuleKind, Rule]]:
        """Return those of `rules` that mean what *written* means, however it is spelled."""
        try:
            meant = parse_rule(written)
        except SettingsError:
            return []
        return [each for each in self.rules() if _is_same(each[1], meant)]

    def remove_rule(self, rule: Rule) -> str:
        """Take back *rule*, in this session and in the project's file; return where it held.

        Another file or option that allows the same goes on to do so.

        Raises:
            SettingsError: It stands only elsewhere, or the file cannot be changed.
        """
        stored, file, held = self._project_rules, str(self.project_file), _THIS_SESSION
        same = [each for each in self._rules.allow if _is_same(each, rule)]
        in_file = [
            each for each in same if each.origin == file or each.origin.startswith(f"{file}:")
        ]
        gone = [*in_file, *(each for each in same if each.origin == _THIS_SESSION)]
        if not gone:
            raise SettingsError(f"{rule} is set in {rule.origin}: change it there")
        if stored and in_file:
            is_wide = stored.remove(lambda each: _is_same(parse_rule(each), rule))
            held = "every project" if is_wide else "this project"
        self._taken_back += gone
        return held

    def follow(self, session: "Permissions") -> None:
        """Use no rule that the user takes back in *session*, or has taken back there."""
        self._taken_back = session._taken_back

    def about_host(self, host: str, port: int) -> tuple[RuleKind, Rule] | None:
        """Return the strongest rule about *host* at *port*, with its kind; None without one."""
        from agent_cli.policies.network_rules import rule_about_host  # with a host

        return rule_about_host(self._rules, host, port)

    def allow_hosts(self, written: Sequence[str], scope: RuleScope) -> None:
        """Add the rules *written* about hosts, for *scope*.

        Raises:
            SettingsError: They cannot be stored, so nothing is allowed.
        """
        origin, stored = _THIS_SESSION, self._project_rules
        if stored and scope != "session":
            add = stored.add_everywhere if scope == "everywhere" else stored.add
            (add or stored.add)(written)
            origin = str(stored.file)
        for each in written:
            self._allow(parse_rule(each, origin))

    def open_dir(self, folder: Path) -> None:
        """Let tools and commands use a further directory like the workspace."""
        real = real_path(folder)
        if real not in (self._reach.root, *self._reach.extra_dirs):
            reach = replace(self._reach, extra_dirs=(*self._reach.extra_dirs, real))
            self._commands = replace(self._commands, reach=reach)
            self._files = replace(self._files, reach=reach)

    def is_remembered(self, call: ToolCall) -> bool:
        """Return whether rules remembered since the question about *call* allow it.

        A recalled call that is itself a question needs no approval: it asks again when it runs.
        """
        return call.id in self._own_questions or is_covered(
            self.asked_about(call), self._rules.allow
        )

    def rules(self) -> Iterator[tuple[RuleKind, Rule]]:
        """Yield the active rules with kind and origin, the strongest first."""
        return self._rules.listed()

    def denies_tool(self, name: str) -> bool:
        """Return whether a rule denies every call of the tool *name*."""
        return self._rules.denying(name) is not None

    def allows_every_effect(self, command: str) -> bool:
        """Return whether a rule, or the mode yolo, allows *command* whatever it changes."""
        return self.mode == "yolo" or self._commands.allows_every_effect(command, self._rules)

    def rules_allowing(self, command: str) -> Sequence[str]:
        """Return rules that would allow *command* whatever it changes; none if no rule can."""
        return self._commands.rules_allowing(command)

    @property
    def _rules(self) -> RuleSet:
        if not self._taken_back:
            return self._all_rules
        kept = (each for each in self._all_rules.allow if each not in self._taken_back)
        return replace(self._all_rules, allow=tuple(kept))

    @property
    def _reach(self) -> Reach:
        return self._commands.reach

    def _is_other_question(self, call: ToolCall, paths: Sequence[str]) -> bool:
        """Return whether a person was asked about *call* while it reached other *paths*.

        An approval does not cover files that a symlink was pointed at since the question.
        """
        asked_input, asked_paths = self._paths_asked.setdefault(call.id, (call.input, paths))
        if asked_input != call.input:  # A hook changed it.
            self._paths_asked[call.id] = (call.input, paths)
            return False
        return asked_paths != paths

    def _allow(self, rule: Rule) -> None:
        self._taken_back[:] = [each for each in self._taken_back if each != rule]
        if rule not in self._all_rules.allow:
            self._all_rules = replace(self._all_rules, allow=(*self._all_rules.allow, rule))


def _is_same(one: Rule, other: Rule) -> bool:
    """Return whether two rules cover the same, wherever they stand."""
    return (one.tool, _plain_text(one)) == (other.tool, _plain_text(other))


def _plain_text(rule: Rule) -> str | None:
    """Return the text of *rule*, without the `./` before a path that means the same without it."""
    text = rule.text or ""
    if not text.startswith("./") or rule.names(COMMAND_TOOL):
        return rule.text
    # Only a pattern with a slash within is relative to the workspace without the `./`, too.
    return text[2:] if "/" in text[2:-1] else text
