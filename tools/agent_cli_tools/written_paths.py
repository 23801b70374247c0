"""Refuse paths as the model wrote them."""

import unicodedata

from agent_cli.contracts.errors import ToolError

# Invisible characters that reorder text, so that a path looks like another one.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def refuse_hidden_characters(given: str) -> None:
    """Raise `ToolError` if *given* has a character that hides which file it names."""
    for character in given:
        if character in _BIDI or unicodedata.category(character) in {"Cc", "Cs"}:
            raise ToolError(
                f"The path {given!a} holds the character U+{ord(character):04X}, which hides"
                " what it names. Write the path without it."
            )


def holds_secrets(given: str) -> ToolError:
    """Return the error for a path whose file may hold secrets."""
    return ToolError(
        f"{given} may hold secrets, so the tools do not touch it."
        " Ask the user for what you need to know from it."
    )
