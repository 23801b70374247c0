"""Find words in all sessions: ripgrep preselects files, then their entries are searched.

The text searched is that of `sessions show`, without secrets: hidden prompts and rewound ones are
not found.
"""

import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.errors import SessionError
from agent_cli.contracts.listings import SessionMatch
from agent_cli.contracts.timeline import Output, Prompt, TextOutput, ToolOutput, UserOutput
from agent_cli.contracts.wording import one_line
from agent_cli.core.projection import entries
from agent_cli.session_store.history import BLOBS_DIR
from agent_cli.session_store.store import SessionStore
from agent_cli.session_store.transcript import content_text, entry_text
from agent_cli.system.programs import find_program
from agent_cli.terminal.sanitize import clean

if TYPE_CHECKING:
    from agent_cli.contracts.listings import SessionInfo

_LIMIT_S: Final = 20.0
_AROUND_CHARS: Final = 60
_EXCERPT_CHARS_MAX: Final = 160
_FOUND_NONE: Final = 1
# Records are ASCII: other characters, quotes and backslashes are escaped in them.
_AS_WRITTEN: Final = re.compile(r"[ !#-\[\]-~]+")


def search(
    store: SessionStore, words: Sequence[str], *, redact: Callable[[str], str]
) -> Iterator[SessionMatch]:
    """Yield each session that has an entry with all *words*, the most recently used first.

    Args:
        store: The sessions.
        words: Matched in any case, also as parts of words.
        redact: Removes the secrets from the text that is searched and shown.

    Raises:
        SessionError: The search took too long.
    """
    patterns = patterns_of(words)
    candidates = candidates_in(store.folder, words)
    for session in store.files():
        for path in store.tree(session):
            if candidates is not None and path not in candidates:
                continue
            try:
                history, info = store.read_file(path), store.describe(path)
            except (SessionError, FileNotFoundError):
                continue  # `sessions verify` reports the damage; another program deletes sessions
            if match := match_in(history.prompts, info, patterns, redact):
                yield match


def patterns_of(words: Sequence[str]) -> list[re.Pattern[str]]:
    """Return a pattern for each of *words*, which are matched in any case."""
    return [re.compile(re.escape(word), re.IGNORECASE) for word in words]


def match_in(
    prompts: Sequence[Prompt],
    info: "SessionInfo",
    patterns: Sequence[re.Pattern[str]],
    redact: Callable[[str], str],
) -> SessionMatch | None:
    """Return the last entry with all *patterns*, with their number; None if there is none."""
    found = [
        (output, text)
        for output in entries([prompt for prompt in prompts if prompt.visible])
        if (text := _text(output, redact)) and all(each.search(text) for each in patterns)
    ]
    if not found:
        return None
    output, text = found[-1]
    return SessionMatch(info, output.id, _who(output), _excerpt(text, patterns), len(found))


def _text(output: Output, redact: Callable[[str], str]) -> str:
    text = content_text(output.content) if isinstance(output, UserOutput) else entry_text(output)
    return redact(clean(text))


def _who(output: Output) -> str:
    match output:
        case UserOutput():
            return "you" if output.is_typed else output.author
        case TextOutput():
            return "agent"
        case ToolOutput():
            return output.name
        case _:
            return output.kind


def _excerpt(text: str, patterns: Sequence[re.Pattern[str]]) -> str:
    """Return a line of *text* around the first of *patterns*."""
    first = patterns[0].search(text)
    assert first is not None
    begin = max(0, first.start() - _AROUND_CHARS)
    cut = "…" if begin else ""
    return one_line(cut + text[begin : begin + 2 * _EXCERPT_CHARS_MAX], _EXCERPT_CHARS_MAX)


def candidates_in(folder: Path, words: Sequence[str]) -> set[Path] | None:
    """Return the files that may hold all *words*; None means all files."""
    ripgrep = find_program("rg", outside=Path.cwd())
    if ripgrep is None or not folder.is_dir():
        return None
    held: set[Path] | None = None
    for word in words:
        runs = _AS_WRITTEN.findall(word)
        if not runs:
            continue
        files = _holding(ripgrep, folder, [max(runs, key=len)])
        blobs = [path.name for path in files if path.parent.name == BLOBS_DIR]
        if blobs:
            files |= _holding(ripgrep, folder, blobs)
        held = files if held is None else held & files
    return held


def _holding(ripgrep: Path, folder: Path, texts: Sequence[str]) -> set[Path]:
    """Return the files in *folder* that hold one of *texts*."""
    command = [str(ripgrep), "--no-config", "--no-ignore", "--hidden", "--text", "--null"]
    command += ["--files-with-matches", "--fixed-strings", "--ignore-case", "--file=-", "--"]
    try:
        ran = subprocess.run(
            [*command, str(folder)],
            input="\n".join(texts).encode(),
            capture_output=True,
            check=False,
            timeout=_LIMIT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise SessionError(
            f"the search took longer than {_LIMIT_S:g} s; name a rarer word"
        ) from error
    if ran.returncode > _FOUND_NONE and not ran.stdout:
        message = ran.stderr.decode(errors="replace").strip()
        raise SessionError(f"the sessions cannot be searched: {message}")
    return {Path(name.decode(errors="surrogateescape")) for name in ran.stdout.split(b"\0") if name}
