"""Permission rules and questions as the policy makes them and front ends show them."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Mode: TypeAlias = Literal["ask", "auto-edit", "plan", "yolo"]
RuleKind: TypeAlias = Literal["allow", "ask", "deny"]

# Tools that do the same to a file as the tool that a rule names.
_ALIKE = {"edit": ("write",), "read": ("grep", "glob")}


STRICTNESS: Final[tuple[Mode, ...]] = ("plan", "ask", "auto-edit", "yolo")
"""The modes, those first that allow least."""


def stricter(one: Mode, other: Mode) -> Mode:
    """Return the mode of the two that allows less."""
    return one if STRICTNESS.index(one) <= STRICTNESS.index(other) else other


def mode_named(name: str) -> Mode | None:
    """Return the mode of that name; None when there is none."""
    modes: dict[str, Mode] = {mode: mode for mode in STRICTNESS}
    return modes.get(name)


@dataclass(frozen=True, slots=True)
class Rule:
    """A parsed rule; `text` is None when it covers every call, `origin` is "FILE:LINE" or so."""

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
        rules: Rules that "always" would add, to be shown whole; none for a call that must be asked
            about each time, nor where nobody could oversee it.
        facts: The rule that asks, and how far the sandbox contains the call.
    """

    rules: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
