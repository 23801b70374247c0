"""Rebuild prompts from records: one fold for resuming, listing, showing, verifying and repair."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from agent_cli.contracts.errors import SessionError
from agent_cli.contracts.events import Event, PromptCompleted, PromptOutput, PromptStateChanged
from agent_cli.contracts.timeline import (
    NO_USAGE,
    BlockOutput,
    CompactionOutput,
    Error,
    Output,
    Pending,
    Prompt,
    PromptState,
    ReplyOutput,
    TextOutput,
    ThinkingOutput,
    ToolOutput,
    TrimOutput,
    Usage,
    UserOutput,
    text_block,
)
from agent_cli.contracts.wording import UNANSWERED_QUESTION, one_line
from agent_cli.core.projection import entries, usage_of
from agent_cli.session_store.blobs import Blobs
from agent_cli.session_store.codec import (
    UNREADABLE,
    JsonObject,
    output_from_json,
    prompt_from_json,
    text_in,
    usage_in,
)
from agent_cli.session_store.log_file import Log, LogLine, read_log, scan
from agent_cli.session_store.records import Header, dropped, record_of
from agent_cli.system.loading import collections_paused
from agent_cli.system.sanitize import clean

if TYPE_CHECKING:
    from agent_cli.contracts.listings import SessionInfo

BLOBS_DIR: Final = "blobs"
_STATES = get_args(PromptState)
_KIND_CHARS_MAX: Final = 40


class History:
    """The content of a session's records; `name` is the one that the user gave it, or "".

    `damage` is the line at which reading stopped: its checksum is wrong, or it is no record that
    this version can apply. All that reads a session reads it through here, and so up to there.
    """

    def __init__(self, damage: LogLine | None = None) -> None:
        self.header: Header | None = None
        self.prompts: list[Prompt] = []
        self.taken_back = NO_USAGE
        self.name = ""
        self.damage = damage
        self._ids: set[str] = set()  # of prompts and entries
        self._without_end: dict[str, str] = {}  # the reply of each entry whose reply has not ended

    @classmethod
    def of_log(cls, log: Log, path: Path) -> "History":
        """Return the content of *log*, the file *path*, up to the first damage.

        Raises:
            SessionError: A newer version of this program wrote it.
        """
        history = cls(log.damage)
        for number, record in enumerate(unpacked(log.records, path), start=1):
            try:
                history._apply(record)
            except UNREADABLE:
                # Its checksum is right, so another program wrote it in this form.
                history.damage = LogLine(number, 0, record, problem=_misfit(record))
                break
        return history

    def mend(self, *, keep_questions: bool = True) -> list[JsonObject]:
        """Apply the records that make this history continuable, and return them."""
        mending = repairs(self.prompts, keep_questions=keep_questions)
        for record in mending:
            self._apply(record)
        return mending

    def _apply(self, record: JsonObject) -> None:
        usage = usage_in(record) if "usage" in record else None
        match record["kind"]:
            case "session":
                self.header = Header.of_record(record)
            case "prompt":
                prompt = prompt_from_json(record)
                self._know(prompt.id)
                if prompt.input is not None:
                    self._know(prompt.input.id)
                self.prompts.append(prompt)
            case "output":
                self._put(record)
            case "state":
                if record["state"] not in _STATES:
                    raise ValueError(record["state"])
                self._prompt(record["prompt"]).state = record["state"]
            case "dropped":
                prompt = self._prompt(record["prompt"])
                left = [out for out in prompt.output if out.id not in record["outputs"]]
                rest = [
                    replace(each, output=left) if each is prompt else each for each in self.prompts
                ]
                self._count_ids(rest)
                prompt.output = left
            case "rewound":
                first = self.prompts.index(self._prompt(record["prompt"]))
                self._count_ids(self.prompts[:first])
                self.taken_back = usage_of(self.prompts[first:], self.taken_back)
                del self.prompts[first:]
            case "renamed":
                self.name = text_in(record["name"])
            case _:
                pass
        if usage is not None:
            prompt = self._prompt(record["prompt"]) if "prompt" in record else self.prompts[-1]
            prompt.usage = usage

    def _put(self, record: JsonObject) -> None:
        outputs = self._prompt(record["prompt"]).output
        index: int = record["index"]
        output = output_from_json(record["output"])
        if not 0 <= index <= len(outputs):
            raise LookupError(index)
        if not record.get("replaced"):
            self._check(output)
            self._ids.add(output.id)
            outputs.insert(index, output)
        elif _identity(outputs[index]) == _identity(output):
            _require_kept([output], self.prompts)
            outputs[index] = output
        else:
            raise LookupError(output.id)

    def _check(self, output: Output) -> None:
        """Raise `LookupError` if *output* keeps an unknown entry, or is in the request already."""
        match output:
            case CompactionOutput(first_kept_id=str(kept)) | TrimOutput(first_kept_id=kept):
                if kept not in self._ids:
                    raise LookupError(kept)
                if kept in self._without_end:  # only then all is looked at: there are many trims
                    _require_kept([output], self.prompts)
            case BlockOutput(reply_id=reply_id):
                self._know(output.id)
                self._without_end[output.id] = reply_id
            case ReplyOutput(reply_id=ended):
                self._know(output.id)
                still = self._without_end.items()
                self._without_end = {id: reply for id, reply in still if reply != ended}
            case UserOutput():
                self._know(output.id)
            case _:
                pass  # a tool may give its side outputs the same id twice

    def _know(self, id: str) -> None:
        if id in self._ids:
            raise LookupError(id)
        self._ids.add(id)

    def _count_ids(self, prompts: Sequence[Prompt]) -> None:
        """Know the ids of *prompts* alone; raise `LookupError` if a cut of theirs keeps another."""
        _require_kept(entries(prompts), prompts)
        self._ids = {output.id for output in entries(prompts)} | {prompt.id for prompt in prompts}

    def _prompt(self, prompt_id: str) -> Prompt:
        # From the end: nearly all records concern the last prompt.
        for prompt in reversed(self.prompts):
            if prompt.id == prompt_id:
                return prompt
        raise LookupError(prompt_id)


def _misfit(record: JsonObject) -> str:
    """Return the fault of a whole *record* that cannot be applied."""
    if not isinstance(kind := record.get("kind"), str):
        return "is a record without a kind"
    shown = one_line(clean(kind), _KIND_CHARS_MAX)
    return f"is a record of the kind {shown!r} in a form that this version cannot read"


def _require_kept(outputs: Iterable[Output], prompts: Sequence[Prompt]) -> None:
    """Raise `LookupError` if a cut among *outputs* begins at an entry that *prompts* do not hold.

    Entries of a reply without an end do not count: `repairs` drops them.
    """
    cuts = [output for output in outputs if isinstance(output, CompactionOutput | TrimOutput)]
    begins = {cut.first_kept_id for cut in cuts} - {None}
    if begins:
        found = {output.id for output in entries(prompts)}.difference(*map(_orphans, prompts))
        if begins - found:
            raise LookupError(begins - found)


def _identity(output: Output) -> tuple[str, str, str]:
    """Return the fields that stay when a record replaces an entry."""
    reply_id = output.reply_id if isinstance(output, BlockOutput | ReplyOutput) else ""
    return output.id, output.kind, reply_id


def read_mended(path: Path) -> History:
    """Return the history in *path* up to the first damage, repaired in memory only.

    Raises:
        SessionError: It cannot be read, or a newer version of this program wrote it.
    """
    with collections_paused():
        history = History.of_log(read_records(path), path)
        history.mend()
    return history


def read_records(path: Path) -> Log:
    """Return the records of *path* up to the first damage.

    Raises:
        SessionError: It cannot be read.
    """
    try:
        return read_log(path)
    except OSError as error:
        raise SessionError(f"{path}: {error.strerror}") from error


def read_header(path: Path) -> Header | None:
    """Return the header of the session at *path*, or None if its file has none."""
    try:
        with path.open("rb") as file:
            first = next(scan(file.readline()), None)
        known = first is not None and first.record.get("kind") == "session"
        return Header.of_record(first.record) if first and known else None
    except (OSError, SessionError, *UNREADABLE):
        return None


def is_unused(path: Path) -> bool:
    """Return whether the session at *path* has nothing but its header.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        return bool(file.readline()) and not file.read(1) and read_header(path) is not None


def unpacked(records: Iterable[JsonObject], path: Path) -> Iterator[JsonObject]:
    """Yield the records of *path* with their long strings restored."""
    blobs = Blobs(blobs_folder(path))
    for record in records:
        yield blobs.bring_back(record)


def blobs_folder(path: Path) -> Path:
    """Return the folder with the long strings of the session at *path*."""
    return path.with_name(BLOBS_DIR)


def cost_since(info: "SessionInfo", at_ms: int) -> int:
    """Return the micro-dollars, reserved ones included, that a session cost from *at_ms* on.

    What was reserved before counts: its call may have ended since.
    """
    before = 0 if info.created_at_ms >= at_ms else _cost_before(info, at_ms)
    return max((info.usage.cost_microdollars or 0) + info.usage.held_microdollars - before, 0)


def _cost_before(info: "SessionInfo", at_ms: int) -> int:
    totals: dict[str, Usage] = {}
    for record in read_log(info.path).records:
        try:
            if "usage" in record and int(record.get("at", 0)) < at_ms:
                prompt = str(record.get("prompt") or record.get("id"))
                totals[prompt] = usage_in(record)
        except UNREADABLE:
            break  # what the session cost is known up to there
    return sum(usage.cost_microdollars or 0 for usage in totals.values())


# Repair a conversation whose process ended at an arbitrary moment, so that it can be continued.
#
# Pure: from prompts to the records that repair them. No tool is run again and no record is
# rewritten: the repair is appended like everything else.

UNKNOWN_OUTCOME = "outcome unknown after a crash; check before repeating"
NEVER_ANSWERED = "not answered: the program ended before the user's answer"
NEVER_STARTED = "not run: the program ended before its turn"


def repairs(prompts: Sequence[Prompt], *, keep_questions: bool = True) -> list[JsonObject]:
    """Return the records that make *prompts* continuable; [] when they already are.

    Args:
        prompts: As read from a session.
        keep_questions: Keep calls waiting for a decision; otherwise they are settled.
    """
    found: list[JsonObject] = []
    for prompt in prompts:
        last = keep_questions and prompt is prompts[-1]
        prompt, ending = _with_end(prompt)
        found += [_recorded(each) for each in ending]
        orphans = _orphans(prompt)
        if orphans:
            found.append(dropped(prompt.id, orphans))
        for event in _closing(_without(prompt, orphans), keep_questions=last):
            found.append(_recorded(event))
    return found


def _recorded(event: Event) -> JsonObject:
    record = record_of(event)
    assert record is not None
    return record[0]


def _with_end(prompt: Prompt) -> tuple[Prompt, list[Event]]:
    """Return *prompt* with the missing end of its last answer, and the event of that end.

    The blocks of a reply are recorded once it has arrived whole, and its end behind the blocks. An
    answer that the user has seen is kept, even if the program or the disk stopped between blocks
    and end. A reply with tool calls is not kept: perhaps not every call is recorded.
    """
    orphans = _orphans(prompt)
    blocks = [out for out in prompt.output if out.id in orphans]
    if not blocks or prompt.output[-1] is not blocks[-1] or not isinstance(blocks[-1], TextOutput):
        return prompt, []
    if not all(isinstance(out, TextOutput | ThinkingOutput) for out in blocks):
        return prompt, []
    last = blocks[-1]
    end = ReplyOutput(f"{last.id}-end", last.at_ms, last.reply_id, prompt.model, "end_turn")
    ended = PromptOutput(prompt.id, len(prompt.output), end)
    return replace(prompt, output=[*prompt.output, end]), [ended]


def _orphans(prompt: Prompt) -> list[str]:
    """Return the entries of replies whose end was not recorded; they do not count."""
    complete = {out.reply_id for out in prompt.output if isinstance(out, ReplyOutput)}
    return [
        out.id
        for out in prompt.output
        if isinstance(out, BlockOutput) and out.reply_id not in complete
    ]


def _without(prompt: Prompt, orphans: Sequence[str]) -> Prompt:
    return replace(prompt, output=[out for out in prompt.output if out.id not in orphans])


def _closing(prompt: Prompt, *, keep_questions: bool) -> Iterator[Event]:
    """Yield records that settle a prompt's open calls and complete it, if no decision is due."""
    waits = keep_questions and _asks(prompt)
    for index, call in enumerate(prompt.output):
        if not isinstance(call, ToolOutput) or not isinstance(call.result, Pending):
            continue
        if call.is_running and call.result.why == "approval":
            again = replace(call, started_at_ms=None)
            closed = replace(call, result=Error((text_block(NEVER_ANSWERED),)))
            yield PromptOutput(prompt.id, index, again if waits else closed, replaced=True)
        elif call.is_running:
            # Its end was not observed, so ended_at_ms stays empty.
            unknown = replace(call, result=Error((text_block(UNKNOWN_OUTCOME),)))
            yield PromptOutput(prompt.id, index, unknown, replaced=True)
        elif not waits:
            refused = call.decision == "rejected"  # the model has not read the rejection yet
            asked = call.result.reason == UNANSWERED_QUESTION
            unread = NEVER_ANSWERED if asked else NEVER_STARTED
            reason = call.result.reason if refused else unread
            unrun = replace(call, result=Error((text_block(reason),)))
            yield PromptOutput(prompt.id, index, unrun, replaced=True)
    if waits and prompt.state == "running":
        # The program ended between recording the question and the pause.
        yield PromptStateChanged(prompt.id, "waiting_for_approval")
    if not waits and prompt.state != "completed":
        yield PromptCompleted(prompt.id)


def _asks(prompt: Prompt) -> bool:
    """Return whether a call of the last reply waits for a decision."""
    replies = [out.reply_id for out in prompt.output if isinstance(out, ReplyOutput)]
    return any(
        isinstance(out, ToolOutput)
        and out.reply_id == replies[-1]
        and isinstance(out.result, Pending)
        and out.result.why == "approval"
        for out in prompt.output
    )
