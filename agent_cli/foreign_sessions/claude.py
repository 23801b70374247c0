"""Sessions of Claude Code: one JSON object a line, linked by `uuid` and `parentUuid`.

The last message leads back to the beginning; messages beside that chain were taken back, or
belong to agents. A reply has a line for each block, with one `message.id`. Parallel results hang
beside the chain, so results are found by the id of their call.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from agent_cli.contracts.timeline import Block, Json
from agent_cli.foreign_sessions.timeline import (
    CallRecord,
    ForeignRecord,
    ReplyRecord,
    ResultRecord,
    SummaryRecord,
    UserRecord,
    at_ms,
)
from agent_cli.system.shapes import is_array, is_object

_Line = Mapping[str, Json]

# Elsewhere in a text, the user quotes one.
_IS_COMMAND: Final = ("<command-name>", "<command-message>")
_COMMAND: Final = re.compile(r"<command-name>(/?[^<]*)</command-name>")
_ARGUMENTS: Final = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
# What only the screen showed, or what tells the model about the other program.
_NOISE: Final = ("<local-command-", "<bash-stdout>", "<bash-stderr>", "Caveat: The messages below")
_SHELL: Final = re.compile(r"<bash-input>(.*)</bash-input>", re.DOTALL)
_REMINDER: Final = re.compile(r"<(system-reminder|ide_opened_file)>.*?</\1>", re.DOTALL)
# What was selected in an editor belongs to the prompt, but is no title.
_SELECTION: Final = re.compile(r"<ide_selection>.*?</ide_selection>", re.DOTALL)
_SYNTHETIC: Final = "<synthetic>"


def opening(line: _Line) -> tuple[str, str]:
    """Return the workspace and the first prompt, as far as *line* has them."""
    cwd, title = line.get("cwd"), ""
    if line.get("type") == "user" and not line.get("isMeta") and not line.get("isSidechain"):
        text = " ".join(str(block.get("text", "")) for block in _user_blocks(line))
        title = _SELECTION.sub("", text).strip()
    return cwd if isinstance(cwd, str) else "", title


def records_in(lines: list[_Line]) -> list[ForeignRecord]:
    """Return the records of the session, in order."""
    spoken = [line for line in lines if line.get("uuid") and not line.get("isSidechain")]
    on_chain = _chain(spoken)
    replies = {_reply_id(line) for line in spoken if line["uuid"] in on_chain} - {""}
    records: list[ForeignRecord] = []
    last_reply = ""
    for line in spoken:
        reply_id = _reply_id(line)
        if line["uuid"] not in on_chain and reply_id not in replies:
            records += _results(line)
            continue
        if line.get("type") == "assistant":
            _add_reply(records, line, is_same=bool(reply_id) and reply_id == last_reply)
            last_reply = reply_id
        elif line.get("isCompactSummary"):
            text = " ".join(str(block.get("text", "")) for block in _user_blocks(line))
            records.append(SummaryRecord(at_ms(line), text))
        elif line.get("type") == "user":
            records += _results(line)
            blocks = tuple(_user_blocks(line))
            if blocks:
                records.append(UserRecord(at_ms(line), blocks, is_typed=not line.get("isMeta")))
    return records


def _chain(spoken: list[_Line]) -> set[Json]:
    """Return the ids of the lines that lead from the beginning to the last message."""
    by_id = {line["uuid"]: line for line in spoken}
    ends = [line["uuid"] for line in spoken if line.get("type") in ("user", "assistant")]
    before: dict[Json, Json] = dict(pairwise(line["uuid"] for line in reversed(spoken)))
    found: set[Json] = set()
    at: Json = ends[-1] if ends else None
    while at in by_id and at not in found:
        found.add(at)
        parent = by_id[at].get("parentUuid") or by_id[at].get("logicalParentUuid")
        # A crash destroyed the parent, or it never was written: go on with the line before.
        at = before.get(at) if parent and parent not in by_id else parent
    return found


def _reply_id(line: _Line) -> str:
    message = line.get("message")
    is_reply = line.get("type") == "assistant" and is_object(message)
    return str(message.get("id", "")) if is_reply and is_object(message) else ""


def _add_reply(records: list[ForeignRecord], line: _Line, *, is_same: bool) -> None:
    message = line.get("message")
    if not is_object(message) or message.get("model") == _SYNTHETIC:
        return
    found = [part for block in _blocks(message.get("content")) for part in _parts(block)]
    # Results of earlier calls of the same reply may stand between its lines.
    open_reply = next(
        (each for each in reversed(records) if not isinstance(each, ResultRecord)), None
    )
    if is_same and isinstance(open_reply, ReplyRecord):
        open_reply.parts.extend(found)
    else:
        records.append(ReplyRecord(at_ms(line), str(message.get("model", "")), found))


def _parts(block: Mapping[str, Json]) -> Iterator[str | CallRecord]:
    match block.get("type"):
        case "text":
            yield str(block.get("text") or "")
        case "tool_use":
            yield CallRecord(str(block.get("id")), str(block.get("name")), block.get("input"))
        case "server_tool_use":
            yield f"[{block.get('name')}: {block.get('input')}]"
        case _:
            return  # thinking, and results of the server's tools


def _results(line: _Line) -> Iterator[ResultRecord]:
    message = line.get("message")
    content = message.get("content") if is_object(message) else None
    for block in content if is_array(content) else ():
        if is_object(block) and block.get("type") == "tool_result":
            found = tuple(_blocks(block.get("content")))
            is_error = block.get("is_error") is True
            yield ResultRecord(str(block.get("tool_use_id")), found, is_error)


def _user_blocks(line: _Line) -> Iterator[Block]:
    message = line.get("message")
    content = message.get("content") if is_object(message) else None
    for block in _blocks(content):
        if block.get("type") == "text":
            if text := _typed(str(block.get("text") or "")):
                yield {"type": "text", "text": text}
        elif block.get("type") != "tool_result":
            yield block


def _blocks(content: Json) -> Iterator[Block]:
    """Yield the blocks of a *content*, which may be one text."""
    blocks: list[Json] = content if is_array(content) else [{"type": "text", "text": content}]
    for block in blocks:
        if is_object(block):
            yield block


def _typed(text: str) -> str:
    """Return the typed text: a command as `/name arguments` or `!line`, without added text."""
    if text.lstrip().startswith(_IS_COMMAND) and (command := _COMMAND.search(text)):
        arguments = _ARGUMENTS.search(text)
        return f"/{command[1].lstrip('/')} {arguments[1] if arguments else ''}".strip()
    if shell := _SHELL.fullmatch(text.strip()):
        return f"!{shell[1].strip()}"
    return "" if text.startswith(_NOISE) else _REMINDER.sub("", text).strip()
