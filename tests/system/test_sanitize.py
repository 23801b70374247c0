"""Sanitizing text with terminal control sequences."""

import random
import re

from agent_cli.system.sanitize import Filter, clean, clean_but_colors, reveal
from tests.tables import each_row

HOSTILE = [
    ("plain text, tab\tand newline\n stay", "plain text, tab\tand newline\n stay"),
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b[2J\x1b[1;1Hforged", "forged"),
    ("\x9b31mred", "red"),
    ("copy \x1b]52;c;cm0gLXJmIC8=\x07this", "copy this"),
    ("title \x1b]0;pwned\x1b\\here", "title here"),
    ("title \x9d0;pwned\x9chere", "title here"),
    ("link \x1b]8;;http://evil\x1b\\text\x1b]8;;\x1b\\", "link text"),
    ("dcs \x1bPq payload\x1b\\ apc \x1b_G payload\x1b\\ end", "dcs  apc  end"),
    ("reset \x1bc charset \x1b(0 end", "reset  charset  end"),
    ("open \x1b]0;no end\nnext line", "open \nnext line"),
    ("bell \x07 back \x08 return \r vt \x0b delete \x7f", "bell  back  return  vt  delete "),
    ("bidi \u202e\u2066evil\u2069\u202c", "bidi evil"),
    ("hidden \u200b\u2060\ufeff\U000e0041\U000e0100\ud800", "hidden "),
    ("emoji 👨‍👩‍👧 ❤️ fa می‌خواهم", "emoji 👨‍👩‍👧 ❤️ fa می‌خواهم"),
    ("cut \x1b", "cut "),
    ("cut \x1b[31", "cut "),
]
FORBIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\u2060\ufeff"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)


@each_row(("text", "shown"), HOSTILE)
def test_control_sequences_and_invisible_controls_are_removed(text: str, shown: str) -> None:
    """Clipboard, title, cursor, links, bidi: a model's text must not control any of them."""
    assert clean(text) == shown


@each_row(("text", "shown"), HOSTILE)
@each_row("size", [1, 2, 3])
def test_sanitized_stream_does_not_depend_on_how_the_text_is_split(
    text: str, shown: str, size: int
) -> None:
    """A sequence split over two deltas is still one sequence."""
    stream = Filter()

    pieces = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]

    assert "".join(pieces) == shown


def test_long_payload_of_a_sequence_is_removed_without_being_stored() -> None:
    """A megabyte for the clipboard costs no memory and none of it is shown."""
    stream = Filter()

    shown = [stream.feed("a\x1b]52;c;")] + [stream.feed("x" * 1_000) for _ in range(1_000)]
    held = len(stream._held)
    shown.append(stream.feed("\x1b"))
    shown.append(stream.feed("\\b"))

    assert ("".join(shown), held < 300) == ("ab", True)


def test_no_forbidden_character_gets_through() -> None:
    """Threat 7: random mixes of the dangerous characters, whole and streamed."""
    chooser = random.Random(7)
    alphabet = "\x1b\x1b[]]P_X^\\;0m?(ABHJ\x07\x9b\x9c\x9d\n\t\r a\u202e\u200b\ud800\U000e0041"
    for _ in range(3_000):
        text = "".join(chooser.choices(alphabet, k=chooser.randrange(40)))
        stream = Filter()
        streamed = "".join(stream.feed(character) for character in text)
        assert not FORBIDDEN.search(clean(text)), text
        assert streamed == clean(text), text


def test_reveal_shows_every_hidden_character() -> None:
    """Threat 8: if one were dropped, the screen would differ from the command."""
    text = "rm x\r\x1b[2K\u202e\u200b\U000e0041\ttab\nline"

    assert reveal(text) == "rm x\\r\\x1b[2K\\u202e\\u200b\\U000e0041\ttab\nline"


@each_row(
    "character",
    [
        *("\u200e", "\u200f", "\u061c", "\u3164", "\u2061", "\u2064", "\u206a", "\u00ad", "\u115f"),
        *("\uffa0", "\u180e", "\u034f", "\u00a0", "\u2003", "\u3000", "\u2028", "\u2800", "\u200d"),
        *("\u200c", "\ufe0f", "\ufe00", "\U000e0100", "\U0001d173", "\ufffa"),
    ],
)
def test_reveal_shows_characters_that_look_like_nothing(character: str) -> None:
    """Threat 8: a direction mark reverses a command, a filler is an invisible name."""
    assert reveal(f"rm{character}x") == f"rm{character.encode('unicode_escape').decode()}x"


def test_reveal_keeps_text_in_every_language_readable() -> None:
    """Joiners between letters and emoji are part of the writing system."""
    for text in ("👨\u200d👩\u200d👧 ❤\ufe0f", "می\u200cخواهم", "日本語 naïve"):
        assert reveal(text) == text


def test_only_colour_sequences_are_kept_if_colours_are_allowed() -> None:
    """For output of the user's own programs; sequences that only resemble a colour are removed."""
    text = "\x1b[1;31mred\x1b[0m \x1b\x1b[31m[2Jx\x1b]0;t\x1b[32mitle\x07 \x1b[?25l\x1b[3"

    assert clean_but_colors(text) == "\x1b[1;31mred\x1b[0m \x1b[31m[2Jx\x1b[32mitle "
