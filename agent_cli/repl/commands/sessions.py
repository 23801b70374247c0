"""Commands about the conversation: resume, fork, rewind, export."""

import asyncio
import shlex
import time
from collections.abc import Sequence
from typing import Final

from agent_cli.contracts.errors import AgentCliError, UsageError
from agent_cli.contracts.file_changes import prompt_of_run
from agent_cli.contracts.listings import SessionInfo, SessionMatch
from agent_cli.contracts.messages import typed_in
from agent_cli.contracts.wording import counted, one_line
from agent_cli.core.branching import BranchPoint, branch_points
from agent_cli.core.pins import pin, pins, unpin
from agent_cli.repl.commands import LISTED_MAX, Command, Context, index_of, pick
from agent_cli.repl.commands.background import jobs_going_on
from agent_cli.repl.commands.files import take_back
from agent_cli.repl.ports import Application, SessionsPort
from agent_cli.repl.recall import prompt_line, recalled, typed_prompts
from agent_cli.system.paths import shown
from agent_cli.system.sanitize import reveal
from agent_cli.terminal.narration import ago, describe_branch_point

# Leaves room for age and id in a row of 100 columns.
_TITLE_CHARS_MAX: Final = 50
_RESTORED: Final = ("code and conversation", "conversation only", "code only")
_BOTH, _FILES_ONLY = 0, 2
_LIST: Final = "list"


def _clear(context: Context, _argument: str) -> None:
    context.app.clear()
    context.writer.aside("; ".join(["new conversation", *jobs_going_on(context.app)]), "dim")


async def _resume(context: Context, requested: str) -> None:
    """Resume the session with this id, prefix of an id, or number in the list."""
    is_number = requested.isdecimal() and int(requested) <= LISTED_MAX
    if requested and not is_number:
        await _go_on_with(context, requested)
        return
    sessions = await asyncio.to_thread(_others, context.app.sessions)
    if not sessions:
        raise UsageError("no other session to resume")
    if is_number:
        index: int | None = index_of(requested, len(sessions))
    else:
        rows = [f"{_about(each, context.app.sessions)} · {each.id}" for each in sessions]
        index = await pick(context, rows, "which session?")
    if index is not None:
        await _go_on_with(context, sessions[index].id)


async def _search(context: Context, typed: str) -> None:
    """Search the sessions and continue one of the matches.

    During a run, or where sessions are off, only list them.
    """
    try:
        words = shlex.split(typed)
    except ValueError:  # an apostrophe, not a quote
        words = typed.split()
    if not words:
        raise UsageError("/search needs words to look for, such as /search race condition")
    found = await asyncio.to_thread(context.app.sessions.search, words)
    if not found:
        context.writer.aside("no session has an entry with all of that", "dim")
        return
    rows = [_found(each, context.app.sessions) for each in found]
    if not context.may_wait or context.app.sessions.id is None:
        context.writer.aside("\n".join(rows[:LISTED_MAX]))
        return
    index = await pick(context, rows, "which session do you want to resume?")
    if index is not None:
        await _go_on_with(context, found[index].session.id)


def _found(match: SessionMatch, sessions: SessionsPort) -> str:
    session = match.session
    excerpt = f"{match.who}: {one_line(match.excerpt, _TITLE_CHARS_MAX)}"
    age = ago(time.time() - session.updated_at_ms / 1000)
    return " · ".join([excerpt, *_directory(session, sessions), age, session.id])


def _others(sessions: SessionsPort) -> list[SessionInfo]:
    """Return the other sessions, those of this directory first; reads files.

    Resuming a damaged one fails with what to do; left out, it seemed to be gone.
    """
    others = [each for each in sessions.list() if each.id != sessions.id]
    return sorted(others, key=lambda each: len(_directory(each, sessions)))


def _directory(session: SessionInfo, sessions: SessionsPort) -> Sequence[str]:
    """Return the directory of *session* in words, if it is another one than that of this one."""
    is_here = session.workspace in ("", sessions.workspace)
    return [] if is_here else [f"in {one_line(shown(session.workspace))}"]


async def _go_on_with(context: Context, id: str) -> None:
    await context.app.sessions.resume(id)
    context.writer.aside(f"resumed session {context.app.sessions.id}", "dim")
    conversation = context.app.agent.conversation
    if context.controls:
        context.controls.show_earlier(conversation)
    elif end := recalled(conversation):
        context.writer.aside(end, "dim")


def _about(session: SessionInfo, sessions: SessionsPort) -> str:
    parts = [
        one_line(session.title, _TITLE_CHARS_MAX) or "-",
        *_directory(session, sessions),
        ago(time.time() - session.updated_at_ms / 1000),
        f"of {session.program}" if session.program else counted(session.prompts, "prompt"),
        *filter(None, [session.state]),
    ]
    return " · ".join(parts)


async def _fork(context: Context, at: str) -> None:
    """Continue with a copy, of all or up to a branch point: a number, an id, or one chosen."""
    found = _branch_points(context.app)
    if at == _LIST:
        if not found:
            raise UsageError("nothing was said in this session yet")
        rows = [describe_branch_point(each) for each in found]
        index = await pick(context, rows, "copy up to where?")
        if index is None:
            return
        at = found[index].id
    elif at.isdecimal() and 1 <= int(at) <= len(found):
        at = found[int(at) - 1].id
    before = context.app.sessions.id
    await context.app.sessions.fork(at or None)
    copied = f"now in session {context.app.sessions.id}, a copy; {before} is unchanged"
    stay = " (files stay as they are)" if at else ""
    context.writer.aside(f"{copied}{stay}", "dim")
    if last := _branch_points(context.app)[:1] if at else []:
        context.writer.aside(f"it ends with: {describe_branch_point(last[0]).strip()}", "dim")


def _branch_points(app: Application) -> list[BranchPoint]:
    """Return the branch points, last first."""
    return branch_points(app.agent.conversation.prompts)[::-1]


def _rename(context: Context, name: str) -> None:
    if not name:
        raise UsageError("/rename needs a name, such as /rename login bug")
    context.app.sessions.rename(name)
    option = "--resume=" if name.startswith("-") else "-r "  # else it would be another option
    told = f"renamed; go on with this session later: agent-cli {option}{shlex.quote(name)}"
    if context.app.sessions.is_behind or not context.app.agent.conversation.prompts:
        once = "it can be" if context.app.sessions.is_behind else "you send something"
        told = f"this session is not saved; the name is kept once {once}"
    context.writer.aside(told, "dim")


async def _rewind(context: Context, number: str) -> None:
    """Rewind to before a prompt, counted from the last; its text returns to the input.

    If files have changed since, the user chooses to restore files, conversation or both.
    """
    prompts = typed_prompts(context.app.agent.conversation)[::-1]
    if not prompts:
        raise UsageError("no prompt to go back to")
    rows = list(map(prompt_line, prompts))
    index = index_of(number, len(rows)) if number else await pick(context, rows, "to before which?")
    if index is None:
        return
    prompt = prompts[index]
    runs = await asyncio.to_thread(_runs_since, context, prompt.id)
    choice = await pick(context, _RESTORED, "restore what?") if runs and not number else None
    if runs and choice is None and not number:
        return
    files, conversation = choice in (_BOTH, _FILES_ONLY), choice != _FILES_ONLY
    if files:
        # Files first: if that fails, the conversation stays too. Counted anew, because what an undo
        # in part leaves may become, or no longer be, something to take back.
        while await asyncio.to_thread(_runs_since, context, prompt.id):
            try:
                if not await take_back(context):
                    return
            except AgentCliError as error:
                alone = f"the conversation stays too; /rewind {index + 1} rewinds it alone"
                raise AgentCliError(f"{error}; {alone}") from error
    if not conversation:
        return
    context.app.sessions.rewind(prompt.id)
    stay = "" if files else " (files stay as they are)"
    goal = "; its goal has ended" if context.app.goals.rewound() else ""
    context.writer.aside(f"back to before: {prompt_line(prompt)}{stay}{goal}", "dim")
    if context.controls and prompt.input:
        context.controls.put_back(typed_in(prompt.input.content))


def _runs_since(context: Context, prompt_id: str) -> int:
    """Return how many runs since a prompt, its own included, changed files; blocks.

    Runs left out by a rewind or a fork count, because they changed files too.
    """
    ids = [prompt.id for prompt in context.app.agent.conversation.prompts]
    since = {*ids[ids.index(prompt_id) :]}
    changed = context.app.file_changes.changed_runs()
    found = (index for index, run in enumerate(changed) if prompt_of_run(run) in since)
    first = next(found, len(changed))
    return len(changed) - first


async def _compact(context: Context, focus: str) -> None:
    await context.app.compact(focus)


async def _btw(context: Context, question: str) -> None:
    if not question:
        raise UsageError("/btw needs a question: /btw QUESTION")
    answer = await context.app.ask_aside(question)
    context.writer.markdown(answer)
    context.writer.aside("neither question nor answer is in the conversation", "dim")


def _pin(context: Context, text: str) -> None:
    conversation = context.app.agent.conversation
    if text:
        number = pin(conversation, text)
        context.writer.aside(f"pinned as {number}: no summary replaces it; /unpin {number}", "dim")
        return
    held = pins(conversation)
    rows = [f"{number:>3}  {one_line(reveal(text))}" for number, text in held.items()]
    context.writer.aside("\n".join(rows) or "nothing is pinned: /pin TEXT")


def _unpin(context: Context, number: str) -> None:
    held = pins(context.app.agent.conversation)
    if not number.isdecimal():
        listed = ", ".join(map(str, held)) or "nothing is pinned"
        raise UsageError(f"/unpin takes one of the numbers that /pin lists: {listed}")
    text = unpin(context.app.agent.conversation, int(number))
    context.writer.aside(f"no longer pinned: {one_line(reveal(text))}", "dim")


def _uncompact(context: Context, _argument: str) -> None:
    context.app.uncompact()
    context.writer.aside("the model is sent the whole conversation again", "dim")


async def _export(context: Context, to: str) -> None:
    stem, _dot, format_name = (to or "md").rpartition(".")
    match format_name:
        case "md" | "html" | "json":
            name = to if stem else ""
            path = await context.app.sessions.export(format_name, name)
            context.writer.aside(f"exported without secrets: {path}")
        case _:
            raise UsageError(f"/export writes md, html or json, not {one_line(to)}")


SESSION_COMMANDS: Final = (
    Command(
        "clear",
        "start a new conversation",
        _clear,
        during_a_run=False,
        leaves_the_session=True,
    ),
    Command(
        "resume",
        "resume an earlier session",
        _resume,
        "[id or number]",
        during_a_run=False,
        choices=lambda app: {each.id: _about(each, app.sessions) for each in _others(app.sessions)},
        leaves_the_session=True,
        needs_session=True,
    ),
    Command(
        "search",
        "find words in all sessions, and resume one",
        _search,
        "WORDS",
        beside_a_run=True,
        leaves_the_session=True,
        more='One entry must hold all words, in any case. "Quotes" keep a phrase together.',
    ),
    Command(
        "fork",
        "continue in a copy of this session, or of its part up to an entry",
        _fork,
        "[list, number or entry]",
        during_a_run=False,
        choices=lambda app: {
            _LIST: "choose the entry",
            **{each.id: describe_branch_point(each) for each in _branch_points(app)},
        },
        leaves_the_session=True,
        needs_session=True,
        more="/fork copies everything; /fork list lets you choose the last entry of the copy.",
    ),
    Command(
        "rename",
        "name this session, for /resume and agent-cli -r",
        _rename,
        "NAME",
        needs_session=True,
    ),
    Command(
        "rewind",
        "go back to before a prompt: code and conversation, or one of them (Esc Esc)",
        _rewind,
        "[number]",
        during_a_run=False,
        needs_session=True,
        more="With a number, 1 being the last prompt, only the conversation goes back.",
    ),
    Command(
        "compact",
        "replace older messages with a summary",
        _compact,
        "[what to keep]",
        during_a_run=False,
    ),
    Command(
        "uncompact",
        "send the model the messages that a summary replaced",
        _uncompact,
        during_a_run=False,
    ),
    Command(
        "btw",
        "ask a question beside the work; the conversation stays as it is",
        _btw,
        "QUESTION",
        beside_a_run=True,
        more=(
            "The model answers from what it knows of the conversation, without tools, also while"
            " it works. The conversation is read from the cache; /usage counts the answer."
        ),
    ),
    Command(
        "pin",
        "keep a text for the whole session, whatever is summarized; list what is kept",
        _pin,
        "[text]",
        more="The model is sent it word for word with each request from the next one on.",
    ),
    Command(
        "unpin",
        "end a pin",
        _unpin,
        "NUMBER",
        choices=lambda app: {
            str(number): one_line(text) for number, text in pins(app.agent.conversation).items()
        },
    ),
    Command(
        "export",
        "write the session to a file in the workspace",
        _export,
        "[md|html|json or FILE]",
        during_a_run=False,
        needs_session=True,
        choices=lambda _app: dict.fromkeys(("md", "html", "json"), ""),
        more="Markdown by default; a file's name tells its format. Secrets are left out.",
    ),
)
