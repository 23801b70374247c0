"""The permission modes that one key cycles through."""

from agent_cli.repl.live.start import cycle_mode
from tests.repl.scripted_app import Permissions


def test_cycling_the_permission_mode_never_leads_to_yolo() -> None:
    """From yolo it leads back to "ask"."""
    permissions = Permissions()
    seen = [permissions.mode]
    for _ in range(4):
        cycle_mode(permissions)
        seen.append(permissions.mode)
    permissions.mode = "yolo"
    cycle_mode(permissions)

    assert [*seen, permissions.mode] == ["ask", "auto-edit", "plan", "ask", "auto-edit", "ask"]
