"""Make text from a model, a tool or a server safe for a terminal.

A terminal executes control sequences in its output: an escape sequence in an answer can write the
clipboard, rename the window, clear the screen or forge its content, and a bidirectional control can
show a command in another order than it runs. `clean` removes them all, `reveal` makes them visible
for a user who has to judge the text, `Filter` cleans a stream.
"""

from typing import Final

from agent_cli.system.loading import late_pattern

# After ECMA-48 §5.4 (CSI), §8.3 (DCS, OSC, PM, APC, SOS) and the behaviour of xterm: a string ends
# at BEL, ST, CAN, SUB, or where the next escape begins. Here it ends at a newline too, so that a
# missing terminator cannot hide the rest of an answer.
_STRING: Final = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x18\x1a\x1b\x9c\n]*+"
_CSI: Final = r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+"
_ESCAPE: Final = r"\x1b[ -/]*+"

# Controls except tab and newline; zero width space, word joiner and byte order mark; embeddings,
# overrides and isolates; tags; lone surrogates; supplementary variation selectors. The joiners and
# the emoji selectors stay: Persian and family emoji need them.
_HIDDEN: Final = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069"
    r"\ud800-\udfff\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
)
_REMOVED: Final = late_pattern(
    rf"{_STRING}(?:\x07|\x1b\\|\x9c)?|{_CSI}[@-~]?|{_ESCAPE}[0-~]?|{_HIDDEN}"
)
_COLORS: Final = late_pattern(r"(\x1b\[[0-9;]*m)")
# More characters that are invisible or look like a space: direction marks, invisible operators,
# fillers, soft hyphens, odd spaces; and joiners and variation selectors after ASCII, where they
# have no effect. Text may need them, but a user who judges a text must see them.
_INVISIBLE: Final = (
    r"[\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200a\u200e\u200f"
    r"\u2028\u2029\u202f\u205f\u2061-\u2065\u206a-\u206f\u2800\u3000\u3164\uffa0\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0080-\U000e0fff]"
    r"|(?<![^\x00-\x7f])[\u200c\u200d\ufe00-\ufe0f]"
)
_SHOWN: Final = late_pattern(rf"{_HIDDEN}|{_INVISIBLE}")
_UNFINISHED: Final = late_pattern(rf"(?:{_STRING}\x1b?|{_CSI}|{_ESCAPE})\Z")
_HELD_CHARS_MAX: Final = 256


def clean(text: str) -> str:
    """Remove every control sequence and invisible control of *text*; tabs and newlines stay."""
    return _REMOVED.sub("", text)


def clean_but_colors(text: str) -> str:
    """Clean *text* like `clean`, but keep the sequences for colours and weight."""
    parts = _COLORS.split(text)
    return "".join(part if at % 2 else clean(part) for at, part in enumerate(parts))


def overwritten(text: str) -> str:
    """Return *text* with the last state of each line that carriage returns draw over.

    For the output of commands only: in any other text, a carriage return must hide nothing.
    """
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def reveal(text: str) -> str:
    r"""Replace every invisible character by an escape such as `\x1b` or `\u202e`.

    For text that a user approves: nothing is dropped, so that the screen shows exactly what runs.
    """
    return _SHOWN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


class Filter:
    """`clean` for a stream: a sequence split between two deltas is held until it is complete."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, delta: str) -> str:
        """Return the clean text up to *delta* that was not returned before."""
        text = self._held + delta
        unfinished = _UNFINISHED.search(text)
        self._held = _shortened(unfinished[0]) if unfinished else ""
        return clean(text[: unfinished.start()] if unfinished else text)

    def reset(self) -> None:
        """Discard a held sequence: the stream ended or starts again."""
        self._held = ""


def _shortened(sequence: str) -> str:
    """Return an unfinished sequence, without its payload if that is long: it is removed anyway."""
    if len(sequence) <= _HELD_CHARS_MAX:
        return sequence
    introducer = sequence[:2] if sequence.startswith("\x1b") else sequence[:1]
    return introducer + ("\x1b" if sequence.endswith("\x1b") else "")
