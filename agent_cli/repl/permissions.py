"""The key that changes the permission mode."""

from typing import Final

from agent_cli.contracts.permission_modes import Mode
from agent_cli.contracts.permissions import PermissionsPort

_NEXT: Final[dict[Mode, Mode]] = {"ask": "auto-edit", "auto-edit": "plan"}


def cycle_mode(permissions: PermissionsPort) -> None:
    """Switch to the next mode; yolo is left out, so that one key press too many is harmless."""
    permissions.mode = _NEXT.get(permissions.mode, "ask")
