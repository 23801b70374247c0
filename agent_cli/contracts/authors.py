"""Authors of messages in the user's role: the user, or a part of the program."""

from typing import Final

USER: Final = "user"
"""The author of what the user typed."""

PROGRAM: Final = "agent-cli"
"""The author of what the program itself says to the model."""

NOTICE: Final = "agent-cli notice"
"""The author of a notice: what the program says about its own state, never the text of strangers.

An author that begins with it is a notice too: "agent-cli notice of plugin NAME". A model that takes
messages in the system's role gets notices there, behind the user's turn.
"""

HOOK: Final = "hook"
"""The author of what the user's hooks say to the model."""


class Authored:
    """Something said in the user's role.

    `author` is `USER` for the user's own words, else the part of the program that speaks: a plugin,
    a hook, the program itself.
    """

    __slots__ = ()
    author: str

    @property
    def is_typed(self) -> bool:
        """Whether these are the user's own words."""
        return self.author == USER

    @property
    def is_notice(self) -> bool:
        """Whether it is a notice of the program; see `NOTICE`."""
        return self.author.startswith(NOTICE)
