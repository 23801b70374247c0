"""The terminal's abilities, according to the environment."""

from agent_cli.terminal.abilities import is_dumb, may_color
from tests.tables import each_row


@each_row(
    ("environment", "dumb", "color"),
    [
        ({"TERM": "xterm-256color"}, False, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, False, True),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": ""}, True, False),
        ({}, True, False),
    ],
)
def test_dumb_terminal_and_no_color_are_detected_from_the_environment(
    environment: dict[str, str], dumb: bool, color: bool
) -> None:
    """In an Emacs shell or a log, escape sequences would appear as text."""
    assert (is_dumb(environment), may_color(environment)) == (dumb, color)
