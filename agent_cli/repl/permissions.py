"""The key that changes the permission mode."""

from typing import Final

from agent_cli.contracts.permissions import Mode
from agent_cli.contracts.permissions_port import PermissionsPort

_NEXT: Final[dict[Mode, Mode]] = {"ask": "auto-edit", "auto-edit": "plan"}


def cycle_mode(permissions: PermissionsPort) -> None:
    """Go to the next mode; only `/mode` leads to yolo, which one key too many must not reach."""
    permissions.mode = _NEXT.get(permissions.mode, "ask")
