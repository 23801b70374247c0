"""Tell the model of commands: their output, how they ended, and what they and hooks changed."""

import signal
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from agent_cli.contracts.timeline import Json, text_block
from agent_cli.contracts.tooling import ToolResult
from agent_cli.contracts.wording import counted, first_named
from agent_cli.system.records import dataclass
from agent_cli.system.sanitize import reveal
from agent_cli.undo.logs import CommandLog, Loss, short_log, unkept
from agent_cli_tools.command_line import OUTPUT_BYTES_MAX, Member
from agent_cli_tools.job import Job
from agent_cli_tools.jobs import COMMAND_LIMIT_MAX_S
from agent_cli_tools.output import OutputBuffer
from agent_cli_tools.seen import SeenFiles
from agent_cli_tools.snapshots.commands import changed_files

_SIGNAL_BASE = 128
_LISTED_PROCESSES_MAX = 5
_STOPPED_CHARS_MAX = 3_000
_NAMED_FILES_MAX = 5
_LISTED_FILES_MAX = 100


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a command.

    Attributes:
        code: The exit code; None if it was stopped at its limit.
        left: Processes it left running.
        notes: Lines about accesses the sandbox refused and files it restored.
        ended_with_it: Names of processes it left running that the sandbox ended.
        began_ns: Before its start, by the clock of files; 0 if nobody asks.
    """

    code: int | None
    duration_s: float
    limit_s: float
    left: Sequence[Member] = ()
    notes: Sequence[str] = ()
    ended_with_it: Sequence[str] = ()
    began_ns: int = 0


def refused(loss: Loss) -> str:
    """Return the line about changes that were refused while the command ran."""
    done = (
        f"after it had deleted or overwritten {counted(loss.files, 'file')}"
        if loss.files
        else "at once"
    )
    return (
        f"[it was not allowed to go on, {done}: its change of {loss.next} and all later ones"
        " failed; /undo takes back what it did. Do not try another way; ask the user first]"
    )


def started(job: Job, limit_s: float | None, *, ends_with_run: bool) -> ToolResult:
    """Return the result for a command started as a job.

    Args:
        job: The job.
        limit_s: What ends it, if the call named another limit.
        ends_with_run: Whether the end of the run does.
    """
    end = f" timeout does not end a job; it may run for {limit_s:,.0f} s." if limit_s else ""
    return _handed_on(job, "Started as", end, ends_with_run=ends_with_run)


def moved(job: Job, elapsed_s: float, *, ends_with_run: bool) -> ToolResult:
    """Return the result for a command that the user moved to the background."""
    begin = f"After {elapsed_s:.1f} s the user moved this command to the background, where it is"
    text = job.output.text()
    return _handed_on(
        job, begin, f"\nIts output until then:\n{text}" if text else "", ends_with_run=ends_with_run
    )


def started_agent(job: Job, *, ends_with_run: bool) -> ToolResult:
    """Return the answer for an agent that is a job."""
    news = _about_its_end("agent", "You get its last reply when it ends", ends_with_run)
    status = (
        f"Started as job {job.id}. job_output says how far it is. {news} The command"
        f" `kill %{job.id}`, alone, ends it."
    )
    return ToolResult.of(status, {"job": job.id, "status": status})


def _handed_on(job: Job, begin: str, end: str, *, ends_with_run: bool) -> ToolResult:
    watched = " or a line matches notify" if job.pattern else ""
    news = _about_its_end("job", f"You are told when it ends{watched}", ends_with_run)
    status = (
        f"{begin} job {job.id}. Its output goes to {job.log} (64 MB of it); job_output reads what"
        f" is new. {news} The command `kill %{job.id}`, alone, ends it."
    )
    details: Json = {
        "kind": "command",
        "exit_code": None,
        "job": job.id,
        "spill": str(job.log),
        "status": status,  # the call's row on the screen shows enough
    }
    return ToolResult.of(f"{status}{end}", details)


def _about_its_end(what: str, news: str, ends_with_run: bool) -> str:
    if ends_with_run:
        return (
            f"This run ends with your last reply, and the {what} with it: to wait for it, call"
            " job_output with wait."
        )
    return f"{news}, so there is no need to wait."


def with_changes(result: ToolResult, log_folder: Path, seen: SeenFiles) -> ToolResult:
    """Return *result* with the files that its watched command changed, and notes; blocks.

    One note names files that the model has read, the other those that /undo cannot bring back.
    """
    files, notes = _changed(log_folder), list[str]()
    if known := seen.any_of(files):
        notes.append(f"[this command changed files that you have read: {_names(known)}]")
    if lost := unkept(log_folder):
        notes.append(f"[/undo cannot bring back all that this command changed: {lost}]")
    details = result.details
    if files and isinstance(details, dict):
        listed: list[Json] = [str(path) for path in files[:_LISTED_FILES_MAX]]
        details = {**details, "changed_files": listed, "changed_count": len(files)}
    return replace(result, content=(*result.content, *map(text_block, notes)), details=details)


def changes_of_job(log_folder: Path, seen: SeenFiles) -> list[str]:
    """Return sentences about the files that an ended job changed; blocks."""
    if not (files := _changed(log_folder)):
        return []
    known = seen.any_of(files)
    line = f"It changed {counted(len(files), 'file')}: {_names(files)}"
    return [f"{line}; of these you have read {_names(known)}" if known else line]


def changes_of_hooks(logs: Iterable[CommandLog], seen: SeenFiles) -> str:
    """Return a note about files that hooks with these *logs* changed, or ""; blocks.

    Hooks run again and again: a file is named once after each time that the model has seen it.
    """
    known = seen.take_outdated(dict.fromkeys(path for log in logs for path in changed_files(log)))
    return f"[agent-cli: hooks changed files that you have read: {_names(known)}]" if known else ""


def _names(paths: Sequence[Path]) -> str:
    return first_named([reveal(str(path)) for path in paths], _NAMED_FILES_MAX)


def _changed(log_folder: Path) -> Sequence[Path]:
    """Return the files that the command left different; none while it runs, or if too many."""
    log = short_log(log_folder)
    return changed_files(log) if log and log.ended_ns else ()


def so_far(output: OutputBuffer) -> ToolResult:
    """Return the last output of a running command, and how many lines it has printed."""
    text = output.last_lines()
    return ToolResult.of(text, {"lines": output.total_lines + bool(text.rpartition("\n")[2])})


def finished(output: OutputBuffer, ended: Ended) -> ToolResult:
    """Return the result for a command that ended, or reached a limit."""
    text = output.final_text()
    details: dict[str, Json] = {
        "kind": "command",
        "exit_code": ended.code,
        "duration_s": round(ended.duration_s, 3),
        **({"began_ns": ended.began_ns} if ended.began_ns else {}),
        "spill": str(output.spill_path) if output.spill_path else None,
    }
    if output.spill_path:
        details["lines"] = output.total_lines
    after = "".join(f"\n{note}" for note in ended.notes)
    if ended.code is None:
        return _excerpt(
            output,
            text,
            f"The command took longer than {ended.limit_s:g} s and was stopped. Give a longer"
            f" timeout (at most {COMMAND_LIMIT_MAX_S}), or background for what does not end by"
            " itself."
            + (f" Its output until then:\n{text}" if text else " It printed nothing.")
            + after,
            details,
            is_error=True,
        )
    if output.total_bytes > OUTPUT_BYTES_MAX:
        return _excerpt(
            output,
            text,
            "The command printed more than 5 GB and was killed. Let it print less, or to a file."
            f" Its output until then:\n{text}{after}",
            details,
            is_error=True,
        )
    body = f"{text}\n" if text and not text.endswith("\n") else text
    status = f"[{_outcome(ended.code, ended.duration_s)}{_still_running(ended.left)}]"
    if not ended.left:
        # Screens omit this line: the call's row shows the same.
        details["status"] = status
    lines = [
        f"{body}{status}",
        *_ended_with_it(ended.ended_with_it),
        *ended.notes,
    ]
    return _excerpt(output, text, "\n".join(lines), details)


def stopped(output: OutputBuffer, duration_s: float) -> str:
    """Return the last output of a command that the user stopped, in full if short.

    It is short enough for a reason of the core, which would cut its middle.
    """
    text = output.text()
    if not text.strip():
        return f"It had run for {duration_s:.1f} s and printed nothing."
    where = ""
    if len(text) > _STOPPED_CHARS_MAX:
        kept = output.keep_file()
        output.close()
        text = text[-_STOPPED_CHARS_MAX:].partition("\n")[2] or text[-_STOPPED_CHARS_MAX:]
        where = f" (the end; all of it is in {output.spill_path})" if kept else " (the end)"
    return f"It had run for {duration_s:.1f} s. Its output until then{where}:\n{text}"


def _excerpt(
    output: OutputBuffer, shown: str, answer: str, details: Json, *, is_error: bool = False
) -> ToolResult:
    """Return *answer*, in which *shown* is an excerpt, with the size of the whole output."""
    is_shortened = output.is_excerpt or output.is_folded
    full_chars = len(answer) - len(shown) + output.total_chars if is_shortened else None
    return ToolResult((text_block(answer),), details, is_error, full_chars)


def _outcome(code: int, duration_s: float) -> str:
    name = ""
    if code > _SIGNAL_BASE and code - _SIGNAL_BASE in set(signal.Signals):
        name = f" ({signal.Signals(code - _SIGNAL_BASE).name})"
    return f"exit {code}{name} · {duration_s:.1f} s"


def _ended_with_it(names: Sequence[str]) -> Sequence[str]:
    """Return a line that says that processes started with & were stopped."""
    if not names:
        return ()
    listed = first_named([*map(reveal, names)], _LISTED_PROCESSES_MAX)
    return (
        f"{listed} {'was' if len(names) == 1 else 'were'} stopped when the command ended;"
        " call with background=true for a program that is to go on",
    )


def _still_running(left: Sequence[Member]) -> str:
    if not left:
        return ""
    named = [f"{reveal(one.name)} {one.pid}" for one in left]
    return f" · still running: {first_named(named, _LISTED_PROCESSES_MAX)}"
