"""Permission rules and approval questions: built by the policy, shown by front ends."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permission_modes import Mode
from agent_cli.contracts.tooling import Tool
from agent_cli.system.records import dataclass

RuleKind: TypeAlias = Literal["allow", "ask", "deny"]
RuleScope: TypeAlias = Literal["session", "project", "everywhere"]

NETWORK: Final = "network"
"""The prefix of rules about hosts; it is no tool."""

# Tools that access a file in the same way as the tool that a rule names.
_ALIKE = {"edit": ("write",), "read": ("grep", "glob")}


@dataclass(frozen=True, slots=True)
class Rule:
    """A parsed rule; `text` is None when it covers every call, `origin` is e.g. "FILE:LINE"."""

    tool: str
    text: str | None = None
    origin: str = ""

    def __str__(self) -> str:
        return self.tool if self.text is None else f"{self.tool}({self.text})"

    def names(self, tool: str) -> bool:
        """Return whether this rule is about *tool*."""
        if self.tool.endswith("*"):
            return tool.startswith(self.tool[:-1])
        return tool == self.tool or tool in _ALIKE.get(self.tool, ())


@dataclass(frozen=True, slots=True)
class ApprovalFacts:
    """The facts a person needs to decide about a call.

    Attributes:
        rules: Rules that "always" would add, to be shown in full; none for a call that needs
            approval each time, or whose effect cannot be reviewed.
        facts: The rule that asks, and the sandbox's protection for this call.
        is_danger: Every mode asks, and no rule of the user does: what the call does cannot be
            undone, or leaves the workspace or the sandbox.
        looser_modes: The modes that would not have asked about it.
        refusing_modes: The modes that would have refused it without asking.
    """

    rules: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    is_danger: bool = False
    looser_modes: tuple[Mode, ...] = ()
    refusing_modes: tuple[Mode, ...] = ()


@dataclass(frozen=True, slots=True)
class ExplainedPart:
    """A part of a command and its effect.

    Attributes:
        text: As written, on one line, with the operator before it; "" for a remark.
        does: A clause that begins with a verb.
        depth: How far inside others it stands.
        is_danger: It cannot be undone, leaves the workspace, or is not understood.
    """

    text: str
    does: str
    depth: int
    is_danger: bool = False

    def joined(self, operator: str) -> "ExplainedPart":
        """Return this part behind *operator*."""
        return replace(self, text=f"{operator}{self.text}")


class HostContact(NamedTuple):
    """A host that `asked_by` asked for; `refusal` says why it was not reached, or ""."""

    host: str
    asked_by: str
    refusal: str = ""


class CallJudgement(NamedTuple):
    """A call that the judge of the mode auto judged; `doubt` says why it had doubts, or ""."""

    call: str
    doubt: str = ""


class PermissionsPort(Protocol):
    """The part of the permission policy that front ends use."""

    mode: Mode

    def rules(self) -> Iterable[tuple[str, Rule]]:
        """Return the rules in force with their effects, the strongest first."""
        ...

    def rules_named(self, written: str) -> Sequence[tuple[str, Rule]]:
        """Return those of `rules` that mean what *written* means, however it is spelled."""
        ...

    def asked_about(self, call: ToolCall) -> ApprovalFacts:
        """Return the facts for the question whether *call* may run."""
        ...

    def explain(self, call: ToolCall) -> tuple[ExplainedPart, ...]:
        """Return the parts of a command with their effects; none for a call that is no command."""
        ...

    async def recall(self, call: ToolCall, tools: Iterable[Tool]) -> None:
        """Rebuild the facts about *call*, if another process asked about it."""
        ...

    def remember(self, call: ToolCall) -> None:
        """Allow calls like this one for the rest of the session."""
        ...

    @property
    def project_file(self) -> Path | None:
        """The file with the rules of this project; None if rules cannot be stored."""
        ...

    def remember_for_project(self, call: ToolCall) -> None:
        """Allow calls like this one in this project from now on.

        Raises:
            SettingsError: The rule cannot be stored; then the calls are not allowed.
        """
        ...

    def allow_rule(self, written: str, tools: Iterable[str]) -> Rule:
        """Allow what the rule *written* covers, in this project from now on; return the rule.

        Raises:
            SettingsError: It is no rule, is about none of *tools*, or cannot be stored.
        """
        ...

    def remove_rule(self, rule: Rule) -> str:
        """Take back *rule*, which allows, from this session and the project's file.

        Returns where it held. Another file or option that allows the same goes on to do so.

        Raises:
            SettingsError: It stands only elsewhere, or the file cannot be changed.
        """
        ...

    def is_remembered(self, call: ToolCall) -> bool:
        """Return whether a rule stored since the question about *call* allows it."""
        ...
