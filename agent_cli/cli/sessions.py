"""`agent-cli sessions ...` and `agent-cli replay`: read and delete sessions, without a model.

`sessions approve` and `reject` continue a run: this module records the decision, and
conversations.py runs it.
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from agent_cli.app.arguments import Arguments
from agent_cli.app.startup import StartupContext, start
from agent_cli.contracts.errors import ModelError, SessionError, SessionNotFound, UsageError
from agent_cli.contracts.events import Notice
from agent_cli.contracts.listings import SessionInfo, SessionMatch
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import ModelRequest, closable
from agent_cli.contracts.timeline import Json, Output
from agent_cli.contracts.wording import counted, dollars
from agent_cli.core.agent import Agent
from agent_cli.core.branching import branch_points
from agent_cli.core.conversation import Conversation
from agent_cli.core.run import RunResult
from agent_cli.core.stream_processor import StreamProcessor
from agent_cli.session_store import SessionStore, upkeep
from agent_cli.session_store.export import Format, export
from agent_cli.session_store.history import History
from agent_cli.session_store.listing import COLUMNS, as_json, damage, last_used, row
from agent_cli.session_store.transcripts import search, transcript, transcript_of_replies
from agent_cli.session_store.upkeep import verify
from agent_cli.system import paths
from agent_cli.system.event_loop import run_loop
from agent_cli.system.json_text import json_object
from agent_cli.system.records import dataclass, field
from agent_cli.system.redaction import Redactor
from agent_cli.terminal.abilities import confirmed
from agent_cli.terminal.narration import describe_branch_point

_NUMBERS = ("prompts", "cost")


def list_sessions(arguments: Arguments) -> int:
    """Print the sessions, newest first: a table on a terminal, else one line each."""
    store = _store()
    own = infos = store.list()
    if arguments.all:
        from agent_cli.app.other_sessions import listed_with  # rare

        infos = listed_with(own)
    if arguments.json:
        print(json.dumps([as_json(info) for info in infos], ensure_ascii=False, indent=2))
        return 0
    from agent_cli.terminal.views import show as show_view  # rich
    from agent_cli.terminal.views.table import Column, Table

    columns = [Column(title, right=title in _NUMBERS, whole=title == "id") for title in COLUMNS]
    table = Table(columns, [row(info) for info in infos], empty="no sessions yet")
    show_view(table, sys.stdout)
    for info in own:
        _tell_damage([info, *store.agents_of(info)])
    return 0


def search_sessions(arguments: Arguments) -> int:
    """Print the sessions in which an entry has all the words, the most recently used first."""
    redact = Redactor.of(start(arguments, may_ask=False).environment).text
    found = list(search(_store(), arguments.operands, redact=redact))
    if arguments.all:
        from agent_cli.app.other_sessions import search_others  # rare

        found += search_others(arguments.operands, redact=redact)
    if arguments.json:
        print(json.dumps([_found_as_json(each, redact) for each in found], indent=2))
        return 0
    from agent_cli.terminal.views import show as show_view  # rich
    from agent_cli.terminal.views.table import Column, Table

    rows = [
        (
            match.session.id,
            last_used(match.session),
            match.session.program or "agent-cli",
            match.session.workspace,
            match.who,
            text,
        )
        for match in found
        if (text := match.excerpt)
    ]
    titles = ("id", "last used", "agent", "workspace", "who", "said")
    columns = [Column(title, whole=title == "id") for title in titles]
    show_view(Table(columns, rows, empty="no session has an entry with all of that"), sys.stdout)
    if found and sys.stdout.isatty():
        print("go on with one of them: agent-cli --resume ID", file=sys.stderr)
    return 0


def _found_as_json(match: SessionMatch, redact: Callable[[str], str]) -> dict[str, Json]:
    session = as_json(match.session)
    return {
        **session,
        "title": redact(match.session.title),
        "agent": match.session.agent,
        "entry": match.entry_id,
        "who": match.who,
        "excerpt": match.excerpt,
        "matches": match.count,
    }


def show(arguments: Arguments) -> int:
    """Print a session, as Markdown on a terminal, else a transcript; or list its branch points."""
    store = _store()
    try:
        history = store.read(arguments.operands[0])
    except SessionNotFound:
        from agent_cli.foreign_sessions.files import find_foreign  # rare

        if (other := find_foreign(arguments.operands[0])) is None:
            raise
        print(transcript(other.read()), end="")
        return 0
    if arguments.entries:
        return _show_entries(history)
    from agent_cli.terminal.views import show as show_view  # rich
    from agent_cli.terminal.views.texts import MarkdownPage

    page = MarkdownPage(export(history, "md", redact=str), plain=transcript(history.prompts))
    show_view(page, sys.stdout)
    agents = store.of_agents(history.header.id).list() if history.header else ()
    for info in reversed([each for each in agents if each.agent]):
        cost = info.usage.cost_microdollars
        spent = "cost unknown" if cost is None else dollars(cost)
        print(f"agent {info.agent}: {info.title} ({spent}); agent-cli sessions show {info.id}")
    _tell_damage(agents)
    return 0


def _show_entries(history: History) -> int:
    from agent_cli.terminal.views import show as show_view  # rich
    from agent_cli.terminal.views.table import Column, Table

    rows = [(point.id, describe_branch_point(point)) for point in branch_points(history.prompts)]
    columns = [Column("entry", whole=True), Column("content")]
    show_view(Table(columns, rows, empty="the session has no prompt yet"), sys.stdout)
    return 0


def replay(arguments: Arguments) -> int:
    """Print the transcript of a session file or a recording; no server is asked, no tool is run.

    Raises:
        UsageError: It cannot be read.
        SessionError: It is neither; the message names its type, if known.
        ModelError: The recording is damaged.
    """
    path = Path(arguments.operands[0])
    if _is_recording(path):
        startup = start(arguments._replace(replay=path), may_ask=False)
        replies = run_loop(_recorded_replies(path, startup))
        _tell(f"{path} is a recording: it holds no prompts, and no results of the calls")
        print(transcript_of_replies(replies), end="")
    else:
        print(transcript(_store().read_file(path).prompts), end="")
    return 0


async def _recorded_replies(path: Path, startup: StartupContext) -> Sequence[Output]:
    """Return the entries of all replies in the recording *path*, also of incomplete ones."""
    from agent_cli.app import parts
    from agent_cli.app.models import Providers
    from agent_cli.providers.recording import RecordingEnded, count_replies
    from agent_cli.providers.retries import RetryPolicy

    providers = Providers(startup, retry=RetryPolicy(max=0, respect_retry_after=False))
    message = UserMessage.of("Play the next reply.")
    request = ModelRequest(model=parts.model(startup), messages=(message,))
    conversation = Conversation()
    played = conversation.begin().output
    for _ in range(count_replies(path)):
        processor = StreamProcessor()
        try:
            async with aclosing(closable(providers.stream(request))) as events:
                await processor.process(events)
        except RecordingEnded:
            break  # a call may play two replies: the first refuses a part of its request
        except ModelError as error:
            conversation.discard_reply(processor.text, "error", error=str(error))
        else:
            assert processor.reply is not None
            conversation.add_reply(processor.reply)
    await providers.provider.aclose()
    return played


def _is_recording(path: Path) -> bool:
    """Return whether *path* was written by --record: its first line announces a response."""
    try:
        with path.open("rb") as file:
            first = json_object(file.readline()) or {}
    except OSError as error:
        raise UsageError(f"replay: {path} cannot be read: {error.strerror}") from error
    return first.get("type") == "response"


def export_session(arguments: Arguments) -> int:
    """Print a session as Markdown, HTML, JSON or ATIF, without secrets."""
    from agent_cli.terminal.views.progress import working  # rich

    id, *formats = arguments.operands
    redact = Redactor.of(start(arguments, may_ask=False).environment).text
    match formats or ["md"]:
        case ["md" | "html" | "json" | "atif" as to]:
            with working(f"exporting {id}", sys.stderr):
                text = _exported(id, to, redact)
        case _:
            raise UsageError(
                f"sessions cannot be exported as {formats[0]!r}: md, html, json or atif"
            )
    print(text, end="")
    return 0


def _exported(id: str, to: Format, redact: Callable[[str], str]) -> str:
    store = _store()
    history = store.read(id)
    of_agents = store.of_agents(store.find(id).stem)
    agents = [of_agents.read(path.stem) for path in reversed(of_agents.files())]
    return export(history, to, redact=redact, agents=agents)


def verify_sessions(arguments: Arguments) -> int:
    """Check one session or all sessions; return 1 if a record is damaged."""
    store = _store()
    named = [store.find(id) for id in arguments.operands] or store.files()
    found = [path for each in named for path in store.tree(each)]
    from agent_cli.terminal.views.progress import tracked  # rich

    checked = {
        path: verify(path)
        for path in tracked(found, "checking", total=len(found), stream=sys.stderr)
    }
    damaged = sum(any(each.damage for each in findings) for findings in checked.values())
    if arguments.json:
        report = {
            path.stem: [asdict(finding) for finding in findings]
            for path, findings in checked.items()
        }
        print(json.dumps(report, ensure_ascii=False, indent=2))
        return 1 if damaged else 0
    for path, findings in checked.items():
        for finding in findings:
            what_to_do = f"; {finding.remedy}" if finding.remedy else ""
            print(f"{path.name}: {finding}{what_to_do}", file=sys.stderr)
    print(f"{counted(len(found), 'session')} checked, {damaged} damaged")
    return 1 if damaged else 0


@dataclass(frozen=True, slots=True)
class CallDecision:
    """A decision about one waiting call; without `tool_call_id`, about the only one.

    As in the REPL, it is recorded first, then the run continues where it stopped.
    """

    verdict: Literal["approve", "reject"]
    tool_call_id: str | None = None
    reason: str | None = None
    require: Callable[[Conversation], None] = field(
        default=lambda _conversation: None, kw_only=True
    )

    async def __call__(self, agent: Agent) -> RunResult:
        """Record the decision and continue the run; an earlier decision about a call stays.

        Raises:
            ConversationError: There is no such call.
            SessionError: Several calls wait and none is named, or none waits.
            UsageError: `require` does not allow it.
        """
        self.require(agent.conversation)
        call = agent.conversation.call(self.tool_call_id or _only_question(agent))
        if call not in agent.conversation.questions():
            became = call.decision or "never asked about"
            agent.publish(Notice("info", f"{call.tool_call_id} does not wait: it was {became}"))
        if self.verdict == "approve":
            return await agent.approve(call.tool_call_id)
        if self.reason is None:
            return await agent.reject(call.tool_call_id)
        return await agent.reject(call.tool_call_id, self.reason)


def require_workspace(session_id: str, workspace: Path) -> None:
    """Check that an approved call runs in the workspace it was meant for.

    Raises:
        SessionError: The session belongs to another directory, or does not exist.
    """
    header = _store().read(session_id).header
    if header and header.workspace != str(workspace):
        raise SessionError(
            f"session {header.id} belongs to {header.workspace}: decide there, because here"
            f" its calls would act on {workspace}"
        )


def _only_question(agent: Agent) -> str:
    waiting = [call.tool_call_id for call in agent.conversation.questions()]
    if not waiting:
        raise SessionError("nothing in this session waits for a decision")
    if len(waiting) > 1:
        raise SessionError(f"several calls wait: name one of {', '.join(waiting)}")
    return waiting[0]


def _store() -> SessionStore:
    return SessionStore(paths.sessions_dir(), tell=_tell)


def _tell_damage(infos: Iterable[SessionInfo]) -> None:
    for sentence in filter(None, map(damage, infos)):
        _tell(sentence)


def _tell(text: str) -> None:
    print(f"agent-cli: {text}", file=sys.stderr)


def delete_sessions(arguments: Arguments) -> int:
    """Delete sessions for good; return 1 if the user does not agree.

    Raises:
        SessionNotFound: There is no such session; nothing is deleted.
        SessionError: One is open in a program, or something cannot be removed.
        UsageError: Nobody can be asked, and --yes was not given.
    """
    from agent_cli.terminal.views.progress import working  # rich

    store = SessionStore(paths.sessions_dir())
    found = list(dict.fromkeys(store.find(id) for id in arguments.operands))
    if not arguments.yes and not _agreed([store.describe(path) for path in found], arguments):
        print("nothing was deleted", file=sys.stderr)
        return 1
    with working("deleting", sys.stderr):
        count = upkeep.delete_sessions(store, [path.stem for path in found])
    print(f"{counted(count, 'session')} deleted")
    return 0


def _agreed(infos: Sequence[SessionInfo], arguments: Arguments) -> bool:
    """Show the sessions on stderr and return whether the user wants them deleted."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("there is no terminal to ask on: --yes deletes sessions without asking")
    from agent_cli.terminal.views import show  # rich
    from agent_cli.terminal.views.table import Column, Table

    redact = Redactor.of(start(arguments, may_ask=False).environment).text
    rows = [(info.id, last_used(info), redact(info.title)) for info in infos]
    columns = [Column("id", whole=True), Column("last used"), Column("title")]
    show(Table(columns, rows, empty=""), sys.stderr)
    return confirmed(f"Delete {counted(len(infos), 'session')} for good?")


COMMANDS: dict[str, Callable[[Arguments], int]] = {
    "sessions list": list_sessions,
    "sessions search": search_sessions,
    "sessions show": show,
    "sessions export": export_session,
    "sessions verify": verify_sessions,
    "sessions delete": delete_sessions,
    "replay": replay,
}
