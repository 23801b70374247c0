"""The port to the permission policy: its mode, its rules, and facts about a call."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.permission_modes import Mode
from agent_cli.contracts.permissions import ApprovalFacts, ExplainedPart, Rule
from agent_cli.contracts.tooling import Tool


class PermissionsPort(Protocol):
    """The part of the permission policy that front ends use."""

    mode: Mode

    def rules(self) -> Iterable[tuple[str, Rule]]:
        """Return the rules in force and what they do, the strongest first."""
        ...

    def asked_about(self, call: ToolCall) -> ApprovalFacts:
        """Return the facts for the question whether *call* may run."""
        ...

    def explain(self, call: ToolCall) -> tuple[ExplainedPart, ...]:
        """Return what each part of a command does; nothing for a call that is no command."""
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

    def is_remembered(self, call: ToolCall) -> bool:
        """Return whether a rule stored since the question about *call* allows it."""
        ...
