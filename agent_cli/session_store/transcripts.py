"""Conversations as plain text, for `sessions show` and `replay`, and the search for words in all.

The text is deterministic, without clock, terminal or network. Hidden prompts and control characters
are left out. In a search ripgrep preselects files, then their entries are searched, without
secrets: hidden prompts and rewound ones are not found.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, assert_never

from agent_cli.contracts.errors import SessionError
from agent_cli.contracts.hosted_blocks import is_result, is_use, written
from agent_cli.contracts.listings import SessionInfo, SessionMatch
from agent_cli.contracts.timeline import (
    Block,
    BlockOutput,
    CompactionOutput,
    CustomOutput,
    DiscardedOutput,
    Error,
    FileOutput,
    Output,
    Pending,
    Prompt,
    Success,
    TextOutput,
    ThinkingOutput,
    ToolOutput,
    TrimOutput,
    UserOutput,
    WidgetOutput,
    text_block,
)
from agent_cli.contracts.wording import one_line
from agent_cli.core.projection import entries
from agent_cli.session_store.history import BLOBS_DIR
from agent_cli.session_store.store import SessionStore
from agent_cli.system.paths import current_folder
from agent_cli.system.programs import find_program
from agent_cli.system.sanitize import clean

_INDENT = "    "

_LIMIT_S: Final = 20.0
# Few: a list at the prompt shows the first 50 characters of an excerpt.
_BEFORE_CHARS: Final = 20
_EXCERPT_CHARS_MAX: Final = 160
_FOUND_NONE: Final = 1
# Records are ASCII: other characters, quotes and backslashes are escaped in them.
_AS_WRITTEN: Final = re.compile(r"[ !#-\[\]-~]+")


def transcript(prompts: Iterable[Prompt]) -> str:
    """Return *prompts* as text with the content of each entry; hidden prompts are left out."""
    return _joined(part for prompt in prompts if prompt.visible for part in _parts(prompt))


def transcript_of_replies(outputs: Iterable[Output]) -> str:
    """Return replies as text; of their calls nothing but the input is known."""
    return _joined(
        f"* {call_line(each)}" if isinstance(each, ToolOutput) else entry_text(each)
        for each in with_joined_text(outputs)
    )


def _joined(parts: Iterable[str]) -> str:
    return clean("\n\n".join(part for part in parts if part) + "\n")


def call_line(call: ToolOutput) -> str:
    """Return a call on one line, its input as JSON."""
    return f"{call.name} {json.dumps(call.input, ensure_ascii=False, default=str)}"


def result_line(call: ToolOutput) -> str:
    """Return the outcome of a call in a word or two, with the decision about it."""
    match call.result:
        case Pending(why="approval"):
            outcome = "waits for a decision"
        case Pending():
            outcome = "has not run" if call.started_at_ms is None else "at work"
        case Error():
            outcome = "error"
        case Success():
            outcome = "done"
        case _:
            assert_never(call.result)
    return f"{call.decision}, {outcome}" if call.decision else outcome


def result_text(call: ToolOutput) -> str:
    """Return the result text of a call, or why it waits."""
    if isinstance(call.result, Pending):
        return call.result.reason
    return content_text(call.result.content)


def content_text(content: Sequence[Block]) -> str:
    """Return the text of *content*, with a word in place of each other block."""
    texts = (
        str(block.get("text", "")) if block["type"] == "text" else f"[{block['type']}]"
        for block in content
    )
    return "\n".join(text for text in texts if text)


def _parts(prompt: Prompt) -> Iterator[str]:
    if prompt.input is not None:
        yield _user_entry(prompt.input)
    yield from map(entry_text, with_joined_text(prompt.output))


def with_joined_text(outputs: Iterable[Output]) -> Iterator[Output]:
    """Yield *outputs*, with the text of a reply that citations break into blocks as one."""
    held: TextOutput | None = None
    for output in outputs:
        if held and isinstance(output, TextOutput) and output.reply_id == held.reply_id:
            texts = (str(each.block.get("text", "")) for each in (held, output))
            held = replace(held, block=text_block("".join(texts)))
            continue
        if held:
            yield held
        held = output if isinstance(output, TextOutput) else None
        if held is None:
            yield output
    if held:
        yield held


def entry_text(output: Output) -> str:
    """Return one entry as text; "" for entries that are only marks."""
    match output:
        case UserOutput():
            return _user_entry(output)
        case TextOutput():
            return str(output.block.get("text", "")).strip()
        case ThinkingOutput():
            thought = str(output.block.get("thinking", "")).strip()
            return _indented("(thinking)", thought) if thought else ""
        case ToolOutput():
            return _indented(f"* {call_line(output)}: {result_line(output)}", result_text(output))
        case BlockOutput(block=block) if is_use(block) or is_result(block):
            return written(block)
        case BlockOutput():
            return f"[{output.block['type']}]"
        case FileOutput():
            return f"[file] {output.path}: {output.summary}"
        case WidgetOutput():
            return _indented(f"[{output.widget}]", output.fallback)
        case DiscardedOutput():
            why = f"[reply not kept: {output.error or output.reason}]"
            return f"{output.text}\n{why}" if output.text else why
        case CompactionOutput():
            return _indented("[older messages were replaced by a summary]", output.summary)
        case TrimOutput():
            return f"[{output.removed_messages} older messages are no longer sent]"
        case CustomOutput(name="unsent" | "own_commands" | "plugin_state"):
            return ""  # kept for the program; what was sent or done of it is an entry of its own
        case CustomOutput(data={"text": str(text), **more}) if not more:
            return f"[{output.name}] {text}"
        case CustomOutput():
            return f"[{output.name}] {json.dumps(output.data, ensure_ascii=False, default=str)}"
        case _:
            return ""


def _user_entry(entry: UserOutput) -> str:
    if not entry.is_typed:
        return _indented(f"[said by {entry.author}]", content_text(entry.content))
    first, *rest = content_text(entry.content).split("\n")
    return "\n".join([f"you> {first}", *(f"     {line}".rstrip() for line in rest)])


def _indented(head: str, body: str) -> str:
    return "\n".join([head, *(f"{_INDENT}{line}".rstrip() for line in body.splitlines())])


def search(
    store: SessionStore, words: Sequence[str], *, redact: Callable[[str], str]
) -> Iterator[SessionMatch]:
    """Yield each session that has an entry with all *words*, the most recently used first.

    A damaged one is searched up to the damage, of which the user is told.

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
                history, info = store.history(path), store.describe(path)
            except (SessionError, FileNotFoundError):
                continue  # `sessions list` says why; another program deletes sessions
            if match := match_in(history.prompts, info, patterns, redact):
                yield match


def patterns_of(words: Sequence[str]) -> list[re.Pattern[str]]:
    """Return a pattern for each of *words*, which are matched in any case."""
    return [re.compile(re.escape(word), re.IGNORECASE) for word in words]


def match_in(
    prompts: Sequence[Prompt],
    info: SessionInfo,
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
    begin = max(0, first.start() - _BEFORE_CHARS)
    cut = "…" if begin else ""
    return one_line(cut + text[begin : begin + 2 * _EXCERPT_CHARS_MAX], _EXCERPT_CHARS_MAX)


def candidates_in(folder: Path, words: Sequence[str]) -> set[Path] | None:
    """Return the files that may hold all *words*; None means all files."""
    ripgrep = find_program("rg", outside=current_folder())
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
            cwd=folder,  # ours may be deleted
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
