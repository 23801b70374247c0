"""Read keys, and what the terminal sends between them.

* A paste from a terminal without bracketed paste is one key, as others are.
* A bracketed paste whose end was lost ends at a Ctrl-C that is read alone, which then is that key.
* The answer to the question for the background colour (OSC 11 of xterm) is no key. Some terminals
  never answer. Only leaving waits for it, for a moment: else the shell would get it as typed text.
* Control sequences that the parser does not know, and passes on as text, are no keys. A terminal
  sends them unasked where another program left a mode on: focus reports, answers to questions that
  nobody waits for, keys in kitty's form. Passed on, each is an Esc, which would stop a run, and
  some letters in the line. Of kitty's form, the keys that have another form become that one.
* An arrow with Alt is that arrow with Ctrl. prompt_toolkit makes two keys of one with Alt, of which
  the first is an Esc; for any other key that is `ALT`, which does what Esc does only in vi mode.

Imported before the first prompt: standard library and prompt_toolkit only.
"""

import re
import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, TextIO, TypeAlias

from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

Ground: TypeAlias = Literal["dark", "light"]

QUESTION: Final = "\x1b]11;?\x1b\\"
_ANSWERS_WITHIN_S: Final = 0.5
_ANSWER: Final = re.compile(r"\x1b\]11;([rgba#0-9a-fA-F:/]{1,40})(?:\x07|\x1b\\)")
# The beginning of an answer, at the end of what was read so far.
_BEGUN: Final = re.compile(r"\x1b(?:\](?:1(?:1(?:;[rgba#0-9a-fA-F:/]{0,40}\x1b?)?)?)?)?\Z")
_CHANNELS: Final = re.compile(r"rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")
# The share of red, green and blue in how bright a colour looks (ITU-R BT.601).
_WEIGHTS: Final = (0.299, 0.587, 0.114)
# Without an answer these tell: the colour behind text by number, of which 7 and 15 are white.
_LIGHT_NUMBERS: Final = frozenset({"7", "15"})
# No one types this many lines between two reads.
_LINES_MIN: Final = 3
_QUIET_S: Final = 0.1
_CHARS_MAX: Final = 10_000_000
_PASTE_BEGINS: Final = "\x1b[200~"
_PASTE_ENDS: Final = "\x1b[201~"
_CTRL_C: Final = "\x03"
_TYPED: Final = frozenset({Keys.ControlM, Keys.ControlJ, Keys.ControlI})


class GroundAnswer:
    """Takes the answer out of the terminal's input, in however many parts it arrives."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Expect no answer yet."""
        self._on_answer: Callable[[Ground], None] | None = None
        self._clock = clock
        self._until_s: float | None = None
        self._held = ""
        self._passed_escape = False

    @property
    def is_expected(self) -> bool:
        """Whether the terminal was asked."""
        return self._on_answer is not None

    def expect(self, on_answer: Callable[[Ground], None]) -> None:
        """Call *on_answer* with the answer, if one comes and is understood; it may be late."""
        self._on_answer = on_answer
        self._until_s = self._clock() + _ANSWERS_WITHIN_S

    @property
    def wait_s(self) -> float:
        """The rest of the wait for the answer, in seconds; 0 if it came or is late."""
        return 0.0 if self._until_s is None else max(self._until_s - self._clock(), 0.0)

    def keys_in(self, read: str) -> str:
        """Return the input *read* without the answer; the beginning of an answer is held back."""
        text = f"{self._held}{read}"
        if self._passed_escape and read.startswith("]"):
            text = f"\x1b{text}"
        self._held, self._passed_escape = "", False
        if "\x1b" not in text:
            return text
        text = _ANSWER.sub(self._take, text)
        if begun := _BEGUN.search(text):
            self._held = begun[0]
            return text[: begun.start()]
        return text

    def released(self) -> str:
        """Return the held back input if it is a key after all, because nothing followed in time."""
        if len(self._held) > len("\x1b]"):
            return ""
        held, self._held = self._held, ""
        self._passed_escape = held == "\x1b"
        return held

    def _take(self, answer: re.Match[str]) -> str:
        self._until_s = None
        if self._on_answer and (ground := ground_of(answer[1])):
            self._on_answer(ground)
        return ""


def ground_of(color: str) -> Ground | None:
    """Return whether *color*, such as "rgb:ffff/ffff/ffff", is dark or light; None if unknown."""
    if re.fullmatch(r"#[0-9a-fA-F]{6}", color):
        color = f"rgb:{color[1:3]}/{color[3:5]}/{color[5:7]}"
    channels = _CHANNELS.match(color)
    if channels is None:
        return None
    shares = (int(part, 16) / (16 ** len(part) - 1) for part in channels.groups())
    bright = sum(weight * share for weight, share in zip(_WEIGHTS, shares, strict=True))
    return "light" if bright > 1 / 2 else "dark"


def first_guess(environment: Mapping[str, str]) -> Ground:
    """Return the ground before an answer: from COLORFGBG, which some terminals set, or dark."""
    _, _, behind = environment.get("COLORFGBG", "").rpartition(";")
    return "light" if behind in _LIGHT_NUMBERS else "dark"


class Keyboard(Vt100Input):
    """Passes keys on, but several lines read at once as one paste.

    The first read passes lines on one by one: they were typed before the prompt. The terminal's
    answer about its background is no key.

    Attributes:
        on_paste: Called when the beginning of a paste is read; its end may come much later.
        keeps_enter: Whether Enter is Enter now, whatever the user has it do.
    """

    _has_read = False

    def __init__(
        self,
        stdin: TextIO,
        answer: GroundAnswer,
        changed: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Read *stdin*, a terminal, from which *answer* is taken out.

        *changed* are names of keys, and of those whose work they do; "none": they do nothing.
        """
        super().__init__(stdin)
        self._answer = answer
        self._changed = {
            tuple(key.key for key in _presses(pressed)): _presses(meant)
            for pressed, meant in changed.items()
        }
        self.on_paste: Callable[[], object] = bool
        self.keeps_enter: Callable[[], bool] = bool
        self.stdin_reader = self._reader = _Reader(stdin, answer, lambda: self.on_paste())

    def whole(self, typed: str) -> str:
        """Return what was *typed* before, or "" while it ends inside a paste: then that comes."""
        return self._reader.whole(typed)

    def flush_keys(self) -> list[KeyPress]:
        """Return keys that were held back, as nothing followed them: Esc."""
        if held := self._answer.released():
            self.vt100_parser.feed(self._reader.whole(held))
        return self.meant(super().flush_keys())

    def read_keys(self) -> list[KeyPress]:
        """Return the keys since the last call."""
        return self.meant(self._read())

    def meant(self, keys: Sequence[KeyPress]) -> list[KeyPress]:
        """Return *keys*, in place of each that the user has changed the one whose work it does."""
        if not self._changed:
            return [*keys]
        found: list[KeyPress] = []
        at = 0
        while at < len(keys):
            # Read with another key, Esc stands for Alt.
            count = 2 if keys[at].key is Keys.Escape and at + 1 < len(keys) else 1
            pressed = keys[at : at + count]
            names = tuple(key.key for key in pressed)
            is_kept = names == (Keys.ControlM,) and self.keeps_enter()
            found += pressed if is_kept else self._changed.get(names, pressed)
            at += count
        return found

    def _read(self) -> list[KeyPress]:
        keys = _without_strays(super().read_keys())
        is_burst, self._has_read = self._has_read, True
        if not is_burst or not _are_lines(keys):
            return keys
        self.on_paste()
        chars = len(keys)
        while chars < _CHARS_MAX and select.select([self.fileno()], [], [], _QUIET_S)[0]:
            more = _without_strays(super().read_keys())
            if not more or not _is_text(more):
                return [_paste(keys), *more]
            keys += more
            chars += len(more)
        return [_paste(keys)]


class _Reader(PosixStdinReader):
    """Reads all but the terminal's answer, and a paste as a whole.

    At each read the parser would search all that has come of it: 5 MB took a quarter of a minute.
    """

    def __init__(self, stdin: TextIO, answer: GroundAnswer, on_paste: Callable[[], object]) -> None:
        super().__init__(stdin.fileno(), encoding=stdin.encoding)
        self._answer = answer
        self._on_paste = on_paste
        self._pieces: list[str] = []  # of a paste whose end has not come yet

    def read(self, count: int = 1024) -> str:
        return self.whole(self._answer.keys_in(super().read(count)))

    def whole(self, text: str) -> str:
        """Return *text*, or "" while it is part of a paste, and what was held back at its end."""
        if not self._pieces and _PASTE_BEGINS in text:
            self._on_paste()
        if not self._pieces and text.rfind(_PASTE_BEGINS) <= text.rfind(_PASTE_ENDS):
            return text
        if text and not text.strip(_CTRL_C):
            # Someone presses it: the end is lost, and nothing else would be a key any more.
            text = f"{_PASTE_ENDS}{text}"
        self._pieces.append(text)
        if _PASTE_ENDS not in "".join(self._pieces[-len(_PASTE_ENDS) :]):
            return ""
        pieces, self._pieces = self._pieces, []
        return "".join(pieces)


def _are_lines(keys: Sequence[KeyPress]) -> bool:
    ends = sum(key.key == Keys.ControlM for key in keys)
    # The last line may be incomplete.
    lines = ends + bool(keys and keys[-1].key != Keys.ControlM)
    return lines >= _LINES_MIN and _is_text(keys)


def _is_text(keys: Sequence[KeyPress]) -> bool:
    return all(not isinstance(key.key, Keys) or key.key in _TYPED for key in keys)


def _paste(keys: Sequence[KeyPress]) -> KeyPress:
    return KeyPress(Keys.BracketedPaste, "".join(key.data for key in keys))


_BY_NAME: Final[Mapping[str, Keys]] = MappingProxyType(
    {
        "enter": Keys.ControlM,
        "shift-enter": Keys.ControlJ,
        "tab": Keys.ControlI,
        "shift-tab": Keys.BackTab,
        "esc": Keys.Escape,
        "backspace": Keys.ControlH,
    }
)
_MODIFIERS: Final[Mapping[str, str]] = MappingProxyType({"": "", "ctrl": "c-", "shift": "s-"})


def _presses(name: str) -> tuple[KeyPress, ...]:
    """Return the presses of a key as `KEY` of the settings names it; none for "none"."""
    if name == "none":
        return ()
    if key := _BY_NAME.get(name):
        return (KeyPress(key),)
    modifier, _, character = name.rpartition("-")
    if modifier == "alt":
        # As the parser has it: see `_escape`.
        is_one = len(character) == 1
        return (ALT, KeyPress(character)) if is_one else (_ESCAPE, *_presses(character))
    return (KeyPress(Keys(f"{_MODIFIERS[modifier]}{character}")),)


_SEQUENCE: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_SEQUENCE_CHARS_MAX: Final = 40
_KITTY: Final = re.compile(
    r"\x1b\[(?P<code>\d{1,7})(?::(?P<shifted>\d{0,7}))?(?::\d*)*"
    r"(?:;(?P<modifiers>\d{0,3})(?::(?P<event>\d))?(?:;[\d:]*)?)?u"
)
_RELEASED: Final = "3"
_SHIFT, _ALT, _CTRL, _LOCKS = 1, 2, 4, 64 | 128
# The code points that stand for keys without a character, such as Caps Lock.
_NO_CHARACTERS: Final = range(0xE000, 0xF900)
_ESCAPE: Final = KeyPress(Keys.Escape, "\x1b")
ALT: Final = KeyPress(Keys.Escape, "Alt")
# What the keys with Alt are here. prompt_toolkit makes an Esc and the key of each.
_WITH_ALT: Final[Mapping[str, Keys]] = MappingProxyType(
    {
        Keys.Up: Keys.ControlUp,
        Keys.Down: Keys.ControlDown,
        Keys.Left: Keys.ControlLeft,
        Keys.Right: Keys.ControlRight,
    }
)
_NAMED: Final[Mapping[tuple[int, int], KeyPress]] = MappingProxyType(
    {
        (27, 0): _ESCAPE,
        (13, 0): KeyPress(Keys.ControlM, "\r"),
        (9, 0): KeyPress(Keys.ControlI, "\t"),
        (9, _SHIFT): KeyPress(Keys.BackTab, "\x1b[Z"),
        (127, 0): KeyPress(Keys.ControlH, "\x7f"),
    }
)


def _without_strays(keys: Sequence[KeyPress]) -> list[KeyPress]:
    """Return *keys*, all of one read, without the control sequences in them that are no keys."""
    kept: list[KeyPress] = []
    at = 0
    while at < len(keys):
        if keys[at].key is not Keys.Escape:
            kept.append(keys[at])
            at += 1
        elif keys[at].data != _ESCAPE.data:  # two keys for one sequence; its data is the first's
            if key := _WITH_ALT.get(keys[at + 1].key):
                kept.append(KeyPress(key, keys[at].data))
            at += 2
        else:
            stray = _stray(keys[at : at + _SEQUENCE_CHARS_MAX])
            kept += _meant(stray) if stray else [_escape(keys[at + 1 : at + 3])]
            at += len(stray) or 1
    return kept


def _escape(following: Sequence[KeyPress]) -> KeyPress:
    """Return the Esc before the keys *following*: Alt if one character was read with it."""
    character, *others = following or [_ESCAPE]
    is_one = not isinstance(character.key, Keys) and (not others or others[0].key is Keys.Escape)
    return ALT if is_one else _ESCAPE


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
        yield ALT
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
