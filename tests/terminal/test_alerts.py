"""Terminal alerts."""

import pytest

from agent_cli.repl.live.bell import alert

SAID = "\x1b]9;done\x1b\\"


@pytest.mark.parametrize(
    "environment",
    [
        {"TERM_PROGRAM": "iTerm.app"},
        {"TERM_PROGRAM": "WezTerm"},
        {"TERM_PROGRAM": "ghostty", "TERM": "xterm-ghostty"},
        {"TERM": "xterm-kitty"},
        {"KITTY_WINDOW_ID": "1", "TERM": "xterm-256color"},
    ],
)
def test_terminal_with_notification_support_gets_a_notification(
    environment: dict[str, str],
) -> None:
    """Unless tmux is in between, which would swallow it, or another alert is configured."""
    assert alert("done", "auto", environment) == SAID
    assert alert("done", "auto", environment | {"TMUX": "/tmp/x,1,0"}) == "\a"
    assert alert("done", "auto", environment | {"TERM": "screen-256color"}) == "\a"
    assert alert("done", "bell", environment) == "\a"
    assert alert("done", "off", environment) == ""


@pytest.mark.parametrize(
    "environment", [{}, {"TERM": "xterm-256color"}, {"WT_SESSION": "1"}, {"TERM_PROGRAM": "vscode"}]
)
def test_other_terminals_ring_the_bell_unless_notifications_are_configured(
    environment: dict[str, str],
) -> None:
    """Some terminals give OSC 9 another meaning."""
    assert alert("done", "auto", environment) == "\a"
    assert alert("done", "osc9", environment) == SAID


def test_configured_notification_passes_through_tmux() -> None:
    """Every escape is doubled, as tmux requires."""
    sent = alert("done", "osc9", {"TMUX": "/tmp/x,1,0"})

    assert sent == "\x1bPtmux;\x1b\x1b]9;done\x1b\x1b\\\x1b\\"
