"""Decide about shell commands: by the rules, their known effects, the sandbox, and the mode."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.options import AUTO_ALLOW, AutoAllow
from agent_cli.contracts.permission_modes import EDITING, Mode
from agent_cli.contracts.permissions import Rule, RuleKind
from agent_cli.contracts.wording import UNSANDBOXED
from agent_cli.policies.decisions import Decision, allowed, asked, denied_by, denied_by_plan
from agent_cli.policies.permission_rules import (
    COMMAND_TOOL,
    RuleSet,
    command_of,
    leaves_sandbox,
    parse_rule,
    runs_on,
)
from agent_cli.policies.shell.reach import Objection, Reach
from agent_cli.sandbox.report import Report
from agent_cli.system.records import dataclass

if TYPE_CHECKING:
    from agent_cli.policies.shell import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCalls:
    """Facts for decisions about commands, beyond the rules and the mode.

    Attributes:
        reach: What commands see without a sandbox.
        auto_allow: The modes in which sandboxed commands run without approval.
        trusted: The user trusts the workspace, including programs its git configuration names.
    """

    reach: Reach
    auto_allow: AutoAllow = AUTO_ALLOW
    trusted: bool = False

    def decide(
        self, call: ToolCall, report: Report | None, *, rules: RuleSet
    ) -> Callable[[Mode], Decision]:
        """Return what decides about a command in a mode; it is judged once for all modes.

        *report* describes the sandbox; None without one.
        """
        from agent_cli.policies.shell import judge  # with the first command

        unsandboxed = leaves_sandbox(call)
        report = None if unsandboxed else report
        reach = self.reach_in(report)
        judged = judge(command_of(call), rules.for_commands(), reach)
        rule = _rule_behind(judged, rules)
        hiding, unsure = _rule_hiding_named_file(call, rules, reach)

        def decided(mode: Mode) -> Decision:
            if judged.verdict == "deny" and rule:
                return denied_by(rule, judged.commands)
            if hiding:
                return denied_by(hiding, judged.commands)
            if mode == "plan" and not judged.read_only:
                return denied_by_plan(judged.commands)
            if judged.verdict == "ask":
                return asked(judged.reason, rule=rule, commands=judged.commands)
            if unsandboxed or unsure:
                return asked(unsure or UNSANDBOXED, commands=judged.commands)
            if judged.verdict == "allow":
                return allowed(judged.reason, rule=rule, commands=judged.commands)
            if every := _rule_for_every_command(rules):
                return allowed(f"allowed by the rule {every}", rule=every, commands=judged.commands)
            if mode == "yolo":
                return allowed("allowed by the mode yolo", commands=judged.commands)
            if report and self._is_held(call, report, reach, mode):
                return allowed("contained by the sandbox", commands=judged.commands)
            return asked(judged.reason, commands=judged.commands, by_mode=True)

        return decided

    def reach_in(self, report: Report | None) -> Reach:
        """Return the reach of a command in the sandbox of *report*."""
        hides = report is not None and report.hides_secrets
        own = report is not None and report.state == "bwrap"
        is_safe = hides and (self.trusted or None)
        reach = replace(self.reach, git_is_safe=is_safe, has_own_temporary=own)
        return replace(reach, secrets_are_masked=hides)

    def may_attempt(self, call: ToolCall, report: Report | None, mode: Mode) -> bool:
        """Return whether to try first if the command does without any lasting effect."""
        from agent_cli.policies.shell.effects import may_only_read

        if report is None or not report.can_be_read_only:
            return False
        if mode not in ("ask", *EDITING) or self.auto_allow == "never" or runs_on(call):
            return False
        if self._holds_home():  # its dot files would be readable
            return False
        return may_only_read(command_of(call), self.reach)

    def allows_every_effect(self, command: str, rules: RuleSet) -> bool:
        """Return whether one of *rules* allows *command* whatever it changes."""
        from agent_cli.policies.shell import judge  # rare

        if _rule_for_every_command(rules):
            return True
        judged = judge(command, rules.for_commands(), self.reach)
        return judged.verdict == "allow" and _rule_behind(judged, rules) is not None

    def rules_allowing(self, command: str) -> Sequence[str]:
        """Return rules that would allow *command* whatever it changes; none if no rule can.

        They name the command itself, or else the words with which each of its parts begins.
        """
        from agent_cli.policies.shell import session_prefixes  # rare

        for texts in ((command,), session_prefixes(command, self.reach)):
            written = [f"{COMMAND_TOOL}({text})" for text in texts]
            with suppress(SettingsError):
                rules = RuleSet(allow=tuple(map(parse_rule, written)))
                if self.allows_every_effect(command, rules):
                    return written
        return ()

    @property
    def _folders(self) -> Sequence[Path]:
        return (self.reach.root, *self.reach.extra_dirs)

    def _holds_home(self) -> bool:
        return any(map(Path.home().is_relative_to, self._folders))

    def _is_held(self, call: ToolCall, report: Report, reach: Reach, mode: Mode) -> bool:
        """Return whether the sandbox of *report* makes approval unnecessary in *mode*."""
        modes = {"never": (), "auto-edit": EDITING, "always": ("ask", *EDITING)}
        if mode not in modes[self.auto_allow] or not report.holds or report.network:
            return False
        # A command could change this program, which would run outside at the next start.
        if report.exposed:
            return False
        # Dot files there make programs act, and not all can be guarded.
        if self._holds_home():
            return False
        try:
            for folder in map(str, self._folders):
                reach.check_tree(folder, folder)
        except Objection:
            from agent_cli.policies.shell.unknown_reads import reads_no_secret  # rare

            return reads_no_secret(command_of(call), reach)
        return True


def _rule_behind(judged: "Judgement", rules: RuleSet) -> Rule | None:
    kinds: dict[str, tuple[RuleKind, ...]] = {
        "deny": ("deny",),
        "ask": ("ask", "deny"),
        "allow": ("allow",),
    }
    return next(
        (
            rule
            for kind in kinds.get(judged.verdict, ())
            for rule in rules.of(kind)
            if rule.names(COMMAND_TOOL) and (rule.text or "*") == judged.rule
        ),
        None,
    )


def _rule_hiding_named_file(
    call: ToolCall, rules: RuleSet, reach: Reach
) -> tuple[Rule | None, str]:
    """As `RuleSet.rule_hiding_named`, if no sandbox hides such files."""
    if reach.secrets_are_masked or not rules.denies_paths("read"):
        return None, ""
    return rules.rule_hiding_named(command_of(call), reach)


def _rule_for_every_command(rules: RuleSet) -> Rule | None:
    """Return the rule that allows any script, parsed or not."""
    every = (rule for rule in rules.allow if rule.text is None)
    return next((rule for rule in every if rule.names(COMMAND_TOOL)), None)
