"""How a session looks: settings that every front end of the terminal shares."""

from typing import NamedTuple

from agent_cli.contracts.options import NOTIFY, STREAMING, THEME, Notify, Streaming, ThemeName


class Look(NamedTuple):
    """`chars_per_second` 0 shows text as fast as it comes; `notify` calls when a long run ends.
    `vi` edits the prompt with vi's keys instead of emacs'. `screen_reader` paints nothing over and
    says states in words.

    A named tuple because it is made before the first prompt; a frozen dataclass takes 3 ms more.
    """

    color: bool = True
    streaming: Streaming = STREAMING
    show_thinking: bool = False
    chars_per_second: float = 0
    theme: ThemeName = THEME
    notify: Notify = NOTIFY
    vi: bool = False
    screen_reader: bool = False
