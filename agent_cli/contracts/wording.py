"""Counts, durations, money and shortened text for people and the model; shared sentences."""

from collections.abc import Callable, Sequence
from math import ceil
from typing import Final

CUT: Final = "\n\n[OUTPUT TRUNCATED: "
"""Begins the note at the end of a result that was cut, for the model."""
UNVOUCHED: Final = "only its server says that it only reads"
"""Why a person is asked about a call of a server's tool that nobody approved yet."""
UNSANDBOXED: Final = "runs outside the sandbox, with all your rights and the network"
"""Why a command without the sandbox is asked about."""
ASKED_BY_HOOK: Final = "a hook asks"
"""Begins the reason of a question that a hook asks: no rule and no other mode answers it."""
MOVED: Final = "Not run: it would touch other files now than when it was checked. Call again."
"""The refusal of a call that a symlink leads to other files since its paths were checked."""

WAITS_FOR_LIMIT: Final = "waiting for the cost limit (other calls hold it)"
"""The activity of an agent whose next model call the running calls leave too little for."""
SESSIONS_OFF: Final = (
    "sessions are off, and this needs one: remove --no-session, or set session.enabled = true"
)
"""Why an option or a command is refused that works on a session."""
UNANSWERED: Final = "No result was recorded for this call."
UNANSWERED_QUESTION: Final = "It has no answer yet."
"""The `reason` of a pending call that is itself a question to the person."""

STEP_MARKS: Final = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
"""The mark before a step of the todo list, by its status; for people and the model."""

ONE_LINE_CHARS_MAX: Final = 100
# The Unicode categories of controls, and of separators of lines and of paragraphs.
_BREAKS: Final = ("Cc", "Zl", "Zp")


def unpriced(model_id: str) -> str:
    """Return why no cost limit holds for a model without a price, and the rows that give it one."""
    rows = f'[prices] "{model_id}" = "INPUT/OUTPUT"'
    return (
        f"no price is known for {model_id}, so max_cost_usd cannot be held: write {rows}, in"
        " dollars per million tokens, into your settings, choose another model, or set no limit"
    )


def once(tell: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that passes a sentence on to *tell*, each only once."""
    earlier: set[str] = set()

    def tell_once(text: str) -> None:
        if text not in earlier:
            earlier.add(text)
            tell(text)

    return tell_once


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return *count* and its noun: `1 file`, `1,234 files`; *plural* where *noun* takes no s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def first_named(names: Sequence[str], most: int) -> str:
    """Return the first *most* of *names*, and the number of the others: `a, b and 3 more`."""
    shown, more = ", ".join(names[:most]), len(names) - most
    return f"{shown} and {more} more" if more > 0 else shown


def short_count(count: int) -> str:
    """Return *count* as `834`, `12.4k` or `1.2M`."""
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}k" if count < 999_950 else f"{count / 1_000_000:.1f}M"


def byte_size(count: int) -> str:
    """Return a size for display: `834 bytes`, `12.4 kB`, `3.2 MB`, `1.5 GB`."""
    if count < 1_000:
        return counted(count, "byte")
    for unit, factor in (("kB", 1e3), ("MB", 1e6)):
        if count < 999.95 * factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count / 1e9:.1f} GB"


def one_line(text: str, chars_max: int = ONE_LINE_CHARS_MAX) -> str:
    """Return *text* on one line of at most *chars_max* characters."""
    line = " ".join(text.split())
    return line if len(line) <= chars_max else f"{line[: chars_max - 1]}…"


def printable(text: str, *, keep: str = "") -> str:
    """Return *text* without characters that control a terminal or are invisible.

    These are the Unicode categories "other" (controls, escape codes, text direction, tags,
    surrogates), except the characters in *keep*.
    """
    import unicodedata  # not on the way to the prompt

    return "".join(c for c in text if c in keep or unicodedata.category(c)[0] != "C")


def escaped(text: str) -> str:
    """Return *text* on one line, with each control character as an escape, such as `\\n`."""
    import unicodedata  # not on the way to the prompt

    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c) in _BREAKS else c
        for c in text
    )


def without_fence(text: str, tag: str) -> str:
    """Return *text* in which nothing opens or closes an element *tag*, in which it is put.

    So a text that a stranger wrote cannot end its own fence, nor open one for another source.
    """
    import re  # not on the way to the prompt

    return re.sub(rf"<(?=[\s/\\]*{tag}\b)", "&lt;", text, flags=re.IGNORECASE)


def seconds(elapsed_s: float) -> str:
    """Return a duration for display: `0.3 s`, `12 s`, `3 min 5 s`."""
    return f"{elapsed_s:.1f} s" if elapsed_s < 10 else whole_seconds(round(elapsed_s))


def whole_seconds(elapsed_s: int) -> str:
    """Return a duration that passed, in whole seconds: `3 s`, `3 min 5 s`, `2 h 0 min`."""
    minutes, rest_s = divmod(elapsed_s, 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest_s} s" if minutes else f"{rest_s} s"


# A header may say "inf".
_DURATION_S_MAX: Final = 1e9


def requested_duration(duration_s: float) -> str:
    """Return a wait or a limit that was asked for: `0.5 s`, `50 min`, `1 h 30 min`, `1 min 1 s`."""
    if duration_s < 60:
        return f"{duration_s:.3g} s"
    minutes, rest_s = divmod(ceil(min(duration_s, _DURATION_S_MAX)), 60)
    parts = ((minutes // 60, "h"), (minutes % 60, "min"), (rest_s, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def share(part: float) -> str:
    """Return a fraction for display: `34%`, or `<1%` for a small one that is not zero."""
    return f"{part:.0%}" if part == 0 or part >= 0.005 else "<1%"


_PER_DOLLAR: Final = 1_000_000

USD_MAX: Final = 1_000_000
"""The highest limit of cost that can be set."""


def in_usd(microdollars: int) -> float:
    """Return an amount in US dollars."""
    return microdollars / _PER_DOLLAR


def in_microdollars(usd: float) -> int:
    """Return an amount in whole micro-dollars; 0, which is no limit to many, for 0 only."""
    return round(usd * _PER_DOLLAR) or int(usd > 0)


def dollars(microdollars: int, *, decimals: int | None = None) -> str:
    """Return an amount in dollars as text: `$1`, `$1.50`, `$0.0123`, `$0.00001`.

    Args:
        decimals: Their number, for amounts in columns or that change in place; by default two to
            four, as needed, six below a tenth of a cent, and none for whole dollars.
    """
    if decimals is not None:
        return f"${in_usd(microdollars):.{decimals}f}"
    most = 6 if microdollars < 1_000 else 4
    whole, _, cents = f"{in_usd(microdollars):.{most}f}".rstrip("0").partition(".")
    return f"${whole}.{cents:0<2}" if cents else f"${whole}"
