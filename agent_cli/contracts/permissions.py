"""Permission rules and approval questions: built by the policy, shown by front ends."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from agent_cli.contracts.permission_modes import Mode

RuleKind: TypeAlias = Literal["allow", "ask", "deny"]

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
    """

    rules: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    is_danger: bool = False
    looser_modes: tuple[Mode, ...] = ()


@dataclass(frozen=True, slots=True)
class ExplainedPart:
    """A part of a command and what it does.

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
