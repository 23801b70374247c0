"""Commands about files: show and undo the agent's changes, add directories, write AGENTS.md."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from agent_cli.contracts.errors import AgentCliError, UsageError
from agent_cli.contracts.file_changes import (
    Difference,
    PlannedUndo,
    TakenBack,
    is_own_run,
    prompt_of_run,
)
from agent_cli.contracts.wording import byte_size, counted, first_named, one_line
from agent_cli.prompt_files.command_files import shipped_prompt
from agent_cli.repl.commands import Command, Context, OutgoingPrompt
from agent_cli.repl.recall import prompt_line
from agent_cli.system.sanitize import reveal

_NAMED_MAX: Final = 20
_ASKED_MAX: Final = 5
_COMMANDS_MAX: Final = 3
_PLANNED_CHARS_MAX: Final = 60
_HOOKS: Final = "hooks"
_OWN_QUESTION: Final = (
    "the last change is that of {}{}; take it back? n: that of the agent before it (y/n) "
)


async def undo(context: Context, _argument: str) -> None:
    """Undo the file changes of the last run; ask first if they are not the agent's."""
    changes = context.app.file_changes
    but_own = False
    if context.questions.can_ask:
        runs = await asyncio.to_thread(changes.changed_runs)
        whose = await asyncio.to_thread(_author, context, runs[-1]) if runs else ""
        if whose:
            plan = ""
            with contextlib.suppress(AgentCliError):  # the answer may be no
                plan = f" ({_planned(await asyncio.to_thread(changes.planned_undo))})"
            question = _OWN_QUESTION.format(whose, plan)
            if await context.questions.choose_key(question, "yn") == "y":
                await take_back(context, is_announced=True)
                return
            but_own = True
    await take_back(context, but_own=but_own)


def _author(context: Context, run_id: str) -> str:
    """Return who made the changes of a run, if it was not the agent; blocks."""
    if context.app.file_changes.is_by_hooks(run_id):
        return _HOOKS
    return "a command of yours" if is_own_run(run_id) else ""


async def take_back(context: Context, *, but_own: bool = False, is_announced: bool = False) -> bool:
    """Announce the undo, undo the file changes of the last run, and report them.

    Where files changed since, the user is asked whether the others are to be taken back; without a
    user to ask, nothing is.

    Args:
        context: Of the command.
        but_own: Whether what the user's own commands, or hooks alone, changed stays.
        is_announced: Whether the user has read what is undone.

    Returns:
        False if the user said no.
    """
    changes = context.app.file_changes
    planned = await asyncio.to_thread(changes.planned_undo, but_own=but_own)
    in_part = bool(planned.kept) and context.questions.can_ask
    if in_part:
        question = _in_part(planned, context.app.workspace)
        if await context.questions.choose_key(question, "yn") != "y":
            context.writer.aside("nothing was undone; /diff run shows what there is to undo")
            return False
    elif not (planned.kept or is_announced):
        context.writer.aside(f"taking back {_planned(planned)}", "dim")
    taken = await asyncio.to_thread(changes.take_back, but_own=but_own, in_part=in_part)
    author = await asyncio.to_thread(_author, context, taken.run_id)
    context.writer.aside("\n".join(_lines(context, taken, author)))
    return True


def _in_part(planned: PlannedUndo, workspace: Path) -> str:
    """Return the question whether to take back a part."""
    named = [*_noted(planned.kept, workspace)]
    names = first_named(named, _ASKED_MAX)
    stay = "stays as it is" if len(named) == 1 else "stay as they are"
    return f"{names} changed since and {stay}; take back the rest, {_planned(planned)}? (y/n) "


def _noted(kept: Mapping[Path, str], workspace: Path) -> Iterator[str]:
    """Return the names of files that stay, with the notes on them."""
    for path, note in kept.items():
        yield f"{_shown(path, workspace)} ({note})" if note else _shown(path, workspace)


def _lines(context: Context, taken: TakenBack, author: str) -> Iterator[str]:
    prompts = context.app.agent.conversation.prompts
    begun_by = prompt_of_run(taken.run_id)
    prompt_text = next((prompt_line(prompt) for prompt in prompts if prompt.id == begun_by), "")
    if author == _HOOKS:
        prompt_text = "what hooks changed" + (f" during: {prompt_text}" if prompt_text else "")
    elif author:
        prompt_text = "what your own command changed of the files that it names"
    yield f"undone: {prompt_text or 'a run that is no longer part of this conversation'}"
    yield from _named("restored", taken.restored, context.app.workspace)
    yield from _named("deleted ", taken.deleted, context.app.workspace)
    kept = [*_noted(taken.kept, context.app.workspace)]
    for name in kept[:_NAMED_MAX]:
        yield f"  kept      {name}"
    if len(kept) > _NAMED_MAX:
        yield f"  and {len(kept) - _NAMED_MAX} more"
    if kept:
        yield "what was kept has changed since; /diff shows it, and a later /undo may take it back"
    for fault in taken.faults[:_NAMED_MAX]:
        yield f"not restored: {fault}"
    if len(taken.faults) > _NAMED_MAX:
        yield f"and {len(taken.faults) - _NAMED_MAX} more were not restored"
    if taken.commands:
        yield f"commands ran too; what else they changed stays: {_listed(taken.commands)}"


def _planned(planned: PlannedUndo) -> str:
    """Return a planned undo in words: `rm -rf data` and 2 edits: 14 files, 3.2 MB."""
    commands = planned.commands
    names = [f"`{one_line(command, _PLANNED_CHARS_MAX)}`" for command in commands[-_COMMANDS_MAX:]]
    if len(commands) > _COMMANDS_MAX:
        names.append(counted(len(commands) - _COMMANDS_MAX, "more command"))
    if planned.edits:
        names.append(counted(planned.edits, "edit"))
    last = names.pop() if names else "a run"
    what = f"{', '.join(names)} and {last}" if names else last
    return f"{what}: {counted(planned.files, 'file')}, {byte_size(planned.bytes)}"


def _listed(commands: Sequence[str]) -> str:
    shown = "; ".join(one_line(command) for command in commands[-_COMMANDS_MAX:])
    more = len(commands) - _COMMANDS_MAX
    return f"{shown}{f' and {more} more' if more > 0 else ''}"


def _named(verb: str, paths: Sequence[Path], workspace: Path) -> Iterator[str]:
    for path in paths[:_NAMED_MAX]:
        yield f"  {verb}  {_shown(path, workspace)}"
    if len(paths) > _NAMED_MAX:
        yield f"  and {len(paths) - _NAMED_MAX} more"


async def _diff(context: Context, which: str) -> None:
    if which not in ("", "run"):
        raise UsageError(f"/diff takes run, for the last run only, not {one_line(which)}")
    changes = context.app.file_changes
    found = await asyncio.to_thread(changes.differences, last_run=bool(which))
    commands = await asyncio.to_thread(changes.commands, last_run=bool(which))
    ran = f"changes they made to other files are not recorded: {_listed(commands)}"
    if not found:
        where = "the last run" if which else "this session"
        none = f"the agent's tools left no changes in {where}"
        if trees := await asyncio.to_thread(changes.worktrees):
            none += (
                f"; those of agents in git worktrees are not shown: {_listed([*map(str, trees)])}"
            )
        context.writer.aside(f"{none}; commands ran, and {ran}" if commands else none, "dim")
        return
    for difference in found:
        _show(context, difference)
    count = counted(len(found), "file")
    added, removed = sum(each.added for each in found), sum(each.removed for each in found)
    context.writer.aside(f"{count}, +{added} −{removed}", "dim")
    if commands:
        context.writer.aside(f"commands ran too; {ran}", "dim")


def _show(context: Context, difference: Difference) -> None:
    path = _shown(difference.path, context.app.workspace)
    note = f"  ({difference.note})" if difference.note else ""
    if context.controls:
        size = f"  +{difference.added} −{difference.removed}" if difference.diff else ""
        context.writer.aside(f"{difference.kind} {path}{size}{note}")
        context.controls.show_diff(difference.shown or difference.diff)
        return
    old = "/dev/null" if difference.kind == "new" else str(Path("a") / path)
    new = "/dev/null" if difference.kind == "deleted" else str(Path("b") / path)
    text = difference.diff or f"({difference.note})"
    if difference.diff and note:
        context.writer.aside(f"{path}{note}")
    context.writer.aside(f"--- {old}\n+++ {new}\n{text}")


def _shown(path: Path, workspace: Path) -> str:
    # Tools use real paths, but the path of the workspace may contain a link.
    root = workspace.resolve()
    name = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
    return reveal(name).replace("\n", "\\n")  # or it would be two names


def _add_dir(context: Context, path: str) -> None:
    if not path:
        raise UsageError("/add-dir needs a directory, such as ../other-project")
    folder = context.app.directories.add(path)
    context.writer.aside(f"tools and commands may use {folder} in this session")


async def _send_shipped(context: Context, name: str, wish: str) -> None:
    """Send the prompt *name* that the program comes with, and what the user adds to it."""
    context.send(OutgoingPrompt(await asyncio.to_thread(shipped_prompt, name, wish)))


async def _init(context: Context, wish: str) -> None:
    await _send_shipped(context, "init", wish)


async def _review(context: Context, wish: str) -> None:
    await _send_shipped(context, "review", wish)


FILE_COMMANDS: Final = (
    Command(
        "diff",
        "show which files the agent changed, in this session or in its last run",
        _diff,
        "[run]",
        beside_a_run=True,
        choices=lambda _app: {"run": "the last run only"},
        more="Compared with the files as they are now; your own changes are marked. Needs no git.",
    ),
    Command(
        "undo",
        "undo the file changes of the agent's last run",
        undo,
        during_a_run=False,
        more=(
            "Run it again to undo the run before. If you changed some of the files since, it asks"
            " whether to take back the others. On Linux, what commands changed is undone too; the"
            " report says which did not allow it. The next request tells the model."
        ),
    ),
    Command(
        "add-dir",
        "let tools and commands use one more directory",
        _add_dir,
        "DIR",
        completes_directories=True,
        more="Until the session ends; --add-dir does it at the start. Secrets stay out of reach.",
    ),
    Command(
        "init",
        "have the model write or update AGENTS.md",
        _init,
        "[what matters]",
        during_a_run=False,
        asks_the_model=True,
    ),
)
REVIEW_COMMAND: Final = Command(
    "review",
    "have the model review what changed in the working tree",
    _review,
    "[what matters]",
    during_a_run=False,
    asks_the_model=True,
    source="shipped",
    more="Changes nothing. A command of yours with this name is used instead.",
)
"""Not one of `FILE_COMMANDS`: many users have a prompt file of this name, which comes first."""
