"""Take control sequences out of the keys that the parser does not know and passes on as text.

A terminal sends them unasked where another program left a mode on: focus reports, answers to
questions that nobody waits for, keys in kitty's form. Passed on, each is an Esc, which would stop a
run, and some letters in the line. Of kitty's form, the keys that have another form become that one.

Imported before the first prompt: standard library and prompt_toolkit only.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

_SEQUENCE: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_CHARS_MAX: Final = 40
_KITTY: Final = re.compile(
    r"\x1b\[(?P<code>\d{1,7})(?::(?P<shifted>\d{0,7}))?(?::\d*)*"
    r"(?:;(?P<modifiers>\d{0,3})(?::(?P<event>\d))?(?:;[\d:]*)?)?u"
)
_RELEASED: Final = "3"
_SHIFT, _ALT, _CTRL, _LOCKS = 1, 2, 4, 64 | 128
# The code points that stand for keys without a character, such as Caps Lock.
_NO_CHARACTERS: Final = range(0xE000, 0xF900)
_ESCAPE: Final = KeyPress(Keys.Escape, "\x1b")
_NAMED: Final[Mapping[tuple[int, int], KeyPress]] = MappingProxyType(
    {
        (27, 0): _ESCAPE,
        (13, 0): KeyPress(Keys.ControlM, "\r"),
        (9, 0): KeyPress(Keys.ControlI, "\t"),
        (9, _SHIFT): KeyPress(Keys.BackTab, "\x1b[Z"),
        (127, 0): KeyPress(Keys.ControlH, "\x7f"),
    }
)


def without_strays(keys: Sequence[KeyPress]) -> list[KeyPress]:
    """Return *keys*, all of one read, without the control sequences in them that are no keys."""
    kept: list[KeyPress] = []
    at = 0
    while at < len(keys):
        stray = _stray(keys[at : at + _CHARS_MAX]) if keys[at].key is Keys.Escape else ""
        kept += _meant(stray) if stray else [keys[at]]
        at += len(stray) or 1
    return kept


def _stray(keys: Sequence[KeyPress]) -> str:
    """Return the sequence that *keys*, of which the first is Esc, begin with; "" if none."""
    escape, *others = keys
    # A key that is known, or a paste, ends what is looked at.
    chars = (key.data if key.key == key.data else "\0" for key in others)
    found = _SEQUENCE.match("".join([escape.data, *chars]))
    return found[0] if found else ""


def _meant(sequence: str) -> Iterator[KeyPress]:
    """Yield the keys that *sequence* stands for in kitty's form."""
    found = _KITTY.fullmatch(sequence)
    if found is None or found["event"] == _RELEASED:
        return
    code, modifiers = int(found["code"]), (int(found["modifiers"] or 1) - 1) & ~_LOCKS
    if modifiers & _ALT:
        yield _ESCAPE
        modifiers &= ~_ALT
    char = _character(code)
    if key := _NAMED.get((code, modifiers)):
        yield key
    elif modifiers == _CTRL and char.isascii() and char.isalpha():
        yield KeyPress(Keys(f"c-{char.lower()}"), chr(code & 0x1F))
    elif modifiers in (0, _SHIFT) and char:
        # The terminal may name the shifted character; a capital may be two, as of ß.
        shifted = _character(int(found["shifted"] or 0)) or char.upper()
        yield KeyPress(shifted if modifiers and len(shifted) == 1 else char)


def _character(code: int) -> str:
    """Return the character that a key with this *code* types; "" if it types none."""
    char = chr(code) if code < 0x110000 and code not in _NO_CHARACTERS else ""
    return char if char.isprintable() else ""
