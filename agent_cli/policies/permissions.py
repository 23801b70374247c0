"""Who decides whether a call may run: the user's rules first, then the mode, then a person."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from agent_cli.events import ToolCall
from agent_cli.policies.permission_rules import Rule, allows, parse_rule, touches
from agent_cli.policies.session_rules import session_rule
from agent_cli.tooling import Allow, Ask, Deny, Tool, Verdict

Mode: TypeAlias = Literal["ask", "auto-edit", "plan", "yolo"]

_PLAN = (
    "Plan mode: nothing that changes anything runs. Look around with the tools that only read, and"
    " describe what you would do."
)
_NOBODY = (
    "This call needs a person's approval and nobody can be asked here. Go on without it, and say"
    " at the end what was left out."
)


class Permissions:
    """Fills `authorize_tool`. A rule that denies wins over everything, plan mode over the rest.

    Then: rules that ask, rules that allow, what was allowed for this session, the mode.

    Attributes:
        mode: "ask" asks before every change; "auto-edit" lets tools write the files they name;
            "plan" refuses every change; "yolo" asks only where a rule wants it. What only reads
            runs in every mode.
        denied_questions: How many calls were refused because nobody could be asked.
    """

    def __init__(
        self,
        *,
        root: Path,
        mode: Mode = "ask",
        allow: Sequence[str] = (),
        ask: Sequence[str] = (),
        deny: Sequence[str] = (),
        interactive: bool = True,
    ) -> None:
        """Create the policy of a session.

        Args:
            root: Where relative paths, in rules and in calls, start.
            interactive: False refuses instead of asking.

        Raises:
            SettingsError: A rule cannot be read.
        """
        self.mode: Mode = mode
        self.denied_questions = 0
        self._root = Path(os.path.realpath(root))
        self._allow, self._ask, self._deny = (
            [parse_rule(written) for written in rules] for rules in (allow, ask, deny)
        )
        self._interactive = interactive
        self._asked_by_mode: set[str] = set()

    def __call__(self, call: ToolCall, tool: Tool, params: object) -> Verdict:
        """Decide about a call whose input is valid."""
        verdict = self._verdict(call, tool, params)
        if isinstance(verdict, Ask) and not self._interactive:
            self.denied_questions += 1
            return Deny(_NOBODY)
        return verdict

    def rule_for(self, call: ToolCall) -> str | None:
        """Return the rule that "always this session" would add; None when there is none.

        There is none for a call that a rule or the tool itself asks about: they ask every time.
        """
        return session_rule(call) if call.id in self._asked_by_mode else None

    def remember(self, call: ToolCall) -> None:
        """Allow calls like this one for the rest of the session."""
        rule = self.rule_for(call)
        if rule is not None:
            self._allow.append(parse_rule(rule))

    def _verdict(self, call: ToolCall, tool: Tool, params: object) -> Verdict:
        if rule := self._touched(self._deny, call):
            return Deny(
                f"The rule {rule} forbids this call. Do not try it in another form; go on without"
                " it, or ask the user to change the rule."
            )
        if self.mode == "plan" and tool.changes:
            return Deny(_PLAN)
        if rule := self._touched(self._ask, call):
            return Ask(f"the rule {rule} asks for it")
        if any(allows(rule, call, self._root) for rule in self._allow):
            return Allow()
        return self._by_mode(call, tool, params)

    def _by_mode(self, call: ToolCall, tool: Tool, params: object) -> Verdict:
        if not tool.changes or self.mode == "yolo":
            return Allow()
        if self.mode == "auto-edit" and tool.writes(params):
            return Allow()
        self._asked_by_mode.add(call.id)
        return Ask(f"{call.name} can change things, and no rule allows this call")

    def _touched(self, rules: Sequence[Rule], call: ToolCall) -> Rule | None:
        return next((rule for rule in rules if touches(rule, call, self._root)), None)
