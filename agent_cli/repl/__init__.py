"""The terminal front end; the only owner of prompt_toolkit and rich. Its display settings."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from agent_cli.contracts.options import NOTIFY, STREAMING, THEME, Notify, Streaming, ThemeChoice


class Look(NamedTuple):
    """The look of a session.

    `chars_per_second` 0 shows text as fast as it comes; `notify` sends a notification when a
    long run ends. `vi` selects vi key bindings instead of emacs', and `keys` lets keys do the work
    of others. `screen_reader` never overwrites text and expresses states in words.

    A named tuple because it is made before the first prompt; a frozen dataclass takes 3 ms more.
    """

    color: bool = True
    streaming: Streaming = STREAMING
    show_thinking: bool = False
    chars_per_second: float = 0
    theme: ThemeChoice = THEME
    notify: Notify = NOTIFY
    vi: bool = False
    keys: Mapping[str, str] = MappingProxyType({})
    screen_reader: bool = False
