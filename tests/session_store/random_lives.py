"""Random lives of a session: user, model, tools and machine act in any order.

A life is played with the real agent, the real policies and real session files; only the model and
the tools are scripted. A kill is simulated with a copy of the file at that event: the rest of the
run is discarded, and the session is resumed from the copy.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from hypothesis import strategies as st

from agent_cli.contracts.errors import AgentCliError, ModelError, NothingToContinue
from agent_cli.contracts.events import (
    AgentStart,
    Event,
    MessageEnd,
    ToolCall,
    ToolExecutionEnd,
)
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import (
    ModelRequest,
    Reply,
    StreamEvent,
)
from agent_cli.contracts.timeline import (
    Block,
    Error,
    Json,
    Pending,
    ToolOutput,
    Usage,
    text_block,
)
from agent_cli.contracts.tooling import Allow, Ask, Deny, Tool, ToolContext, ToolResult, Verdict
from agent_cli.core import projection
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.message_queue import QueueMode
from agent_cli.core.run import RunResult
from agent_cli.policies.compaction import Compaction
from agent_cli.policies.history_cuts import Trimming
from agent_cli.policies.request_settings import plan_mode
from agent_cli.policies.results import Truncation
from agent_cli.policies.summarizer import Summarizer
from agent_cli.session_store import Session, SessionStore
from agent_cli.session_store.history import NEVER_STARTED
from agent_cli.session_store.upkeep import verify
from tests.fakes import (
    LIMIT_S,
    MODEL,
    Gate,
    Step,
    check_run,
    pieces,
    request_faults,
    says,
    stream_of,
    tool,
    users,
)
from tests.random_runs import broken_streams, loop_options, misbehave, queue_modes
from tests.session_store.recordings import WORKSPACE, faults

Deed = Literal["steer", "follow up", "abort", "kill", "plan"]
Act = Literal[
    "say",
    "trigger",
    "continue",
    "decide",
    "compact",
    "uncompact",
    "reopen",
    "fork",
    "rewind",
    "other session",
    "plan",
]
Deeds: TypeAlias = Mapping[tuple[str, int], Deed]


@dataclass
class Turn:
    """One action of the user, and the concurrent ones, by kind and number of the event."""

    act: Act
    deeds: Deeds
    yes: bool
    where: float


@dataclass
class Life:
    """All values drawn for one life."""

    turns: Sequence[Turn]
    script: Sequence[Step]
    options: LoopConfig
    modes: tuple[QueueMode, QueueMode]


_BEHAVIOURS = ["return", "return", "raise", "tool error", "hang", "much", "swallow"]
_TOOLS = ["work", "work", "alone", "danger", "danger", "missing", "rewritten"]
_STOPS = ["tool_use", "tool_use", "end_turn", "max_tokens", "pause_turn", "refusal"]


@st.composite
def _replies(draw: st.DrawFn) -> Reply:
    text = draw(st.sampled_from(["", "I see. ", "One two.", "word " * 300]))
    names = draw(st.lists(st.sampled_from(_TOOLS), max_size=4))
    content: list[Block] = [text_block(text)] if text else []
    for place, name in enumerate(names):
        given: dict[str, Json] = {"do": draw(st.sampled_from(_BEHAVIOURS))}
        content.append({"type": "tool_use", "id": f"t{place}", "name": name, "input": given})
    stop = draw(st.sampled_from(_STOPS)) if names else draw(st.sampled_from(["end_turn", *_STOPS]))
    return Reply("msg", MODEL.id, tuple(content), stop, Usage(len(text), 10))


_ACTS: Sequence[Act] = (*get_args(Act), "say", "say", "say", "say", "decide", "decide", "decide")
_MOMENTS = (
    *("agent_start", "turn_start", "message_start", "message_update", "message_end", "turn_end"),
    *("tool_execution_start", "tool_execution_update", "tool_execution_end", "agent_end"),
    *("app.state_changed", "app.retry"),
    *("app.prompt_started", "app.prompt_output", "app.prompt_state", "app.prompt_completed"),
    *("app.tool_calls_announced", "app.approval_requested", "app.compaction", "app.notice"),
)
_DEEDS: Sequence[Deed] = (*get_args(Deed), "steer", "kill", "abort")
_deeds: st.SearchStrategy[Deeds] = st.dictionaries(
    st.tuples(st.sampled_from(_MOMENTS), st.integers(0, 3)),
    st.sampled_from(_DEEDS),
    max_size=6,
)
lives = st.builds(
    Life,
    turns=st.lists(
        st.builds(
            Turn,
            act=st.sampled_from(_ACTS),
            deeds=_deeds,
            yes=st.booleans(),
            where=st.floats(0, 1),
        ),
        min_size=4,
        max_size=14,
    ),
    script=st.lists(
        st.one_of(_replies(), _replies(), _replies(), broken_streams), min_size=4, max_size=20
    ),
    options=loop_options(0, 2, 5, limit_s=0.01),
    modes=queue_modes,
)


class Played:
    """One life, executed; each method checks its own changes."""

    def __init__(self, life: Life, folder: Path) -> None:
        self._life = life
        self._store = SessionStore(folder)
        self._script = list(life.script)
        self._numbers = count(1)
        self._ran: list[tuple[str, int]] = []  # the session and the number of each call that ran
        self._plan = False
        self._accepted: set[str] = set()
        self._queued: set[str] = set()
        self._summaries = count(1)
        self._known: list[str] = []
        self._events: list[Event] = []
        self._deeds: Deeds = {}
        self._file: bytes | None = None
        self._killed_at = 0
        conversation = Conversation()
        self._session: Session = self._store.create(conversation, WORKSPACE)
        self._begin(self._session, conversation)

    async def play(self) -> None:
        """Execute one turn after the other, and finally ask a question that must be answered."""
        for turn in self._life.turns:
            await self._do(turn)
        while self._agent.conversation.waiting:
            await self._settle_questions()
        self._agent.clear_all_queues()
        self._queued.clear()
        self._script.clear()
        result = await self._run(self._agent.prompt("and now?"), {})
        while result.stop_reason == "waiting_for_approval":
            result = await self._settle_questions()
        assert result.final_message is not None
        assert self._check() == []
        self._session.close()

    async def _do(self, turn: Turn) -> None:
        agent = self._agent
        match turn.act:
            case "say" | "trigger" | "continue" if agent.conversation.waiting:
                await self._decide(turn)  # decisions come first
            case "say":
                await self._run(agent.prompt(self._text("said")), turn.deeds)
            case "trigger":
                await self._run(agent.trigger(visible=turn.yes), turn.deeds)
            case "continue":
                await self._run(agent.continue_(), turn.deeds)
            case "decide":
                await self._decide(turn)
            case "plan":
                self._plan = not self._plan
            case "compact":
                await self._compact()
            case "uncompact":
                agent.conversation.uncompact()
            case _:
                self._change_session(turn)
        assert self._check() == []

    async def _decide(self, turn: Turn) -> None:
        questions = self._agent.conversation.questions()
        if questions:
            id = questions[int(turn.where * (len(questions) - 1))].tool_call_id
            edited: Json = {"do": "return", "n": next(self._numbers)} if turn.where > 0.5 else None
            if turn.yes:
                await self._run(self._agent.approve(id, edited=edited), turn.deeds)
            else:
                await self._run(self._agent.reject(id, "rather not"), turn.deeds)

    async def _settle_questions(self) -> RunResult:
        [first, *_] = self._agent.conversation.questions()
        return await self._run(self._agent.reject(first.tool_call_id), {})

    async def _compact(self) -> None:
        agent = self._agent
        with contextlib.suppress(AgentCliError):  # nothing to summarize, or no summary
            await self._compaction.compact_now(agent.next_turn())

    def _change_session(self, turn: Turn) -> None:
        """Close the session and continue it, a copy, an earlier state or another one."""
        prompts = self._agent.conversation.prompts
        if not self._session.path.exists() or not prompts:
            return
        if turn.act == "rewind":
            self._queued.clear()  # delivered messages may be rewound with their prompt
            self._agent.adopt(
                self._session.rewind(prompts[int(turn.where * (len(prompts) - 1))].id)
            )
            return
        entries = [output.id for prompt in prompts for output in prompt.output]
        at = entries[int(turn.where * (len(entries) - 1))] if entries and turn.yes else None
        self._session.close()
        if turn.act == "fork":
            self._known.append(self._session.id)
            self._begin(*self._store.fork(self._session.id, at=at))
        elif turn.act == "other session" and self._known:
            self._known.append(self._session.id)
            self._begin(*self._store.resume(self._known.pop(0)))
        else:
            before = self._agent.conversation
            session, conversation = self._store.resume(self._session.id)
            assert conversation.messages() == before.messages()
            assert conversation.context() == before.context()
            assert conversation.usage == before.usage
            self._begin(session, conversation)

    def _begin(self, session: Session, conversation: Conversation) -> None:
        options = self._life.options
        self._compaction = Compaction(
            Summarizer(self._summarize), threshold_tokens=1_200, protected_tail_messages=2
        )
        config = replace(
            options,
            model=MODEL,
            stream_fn=self._answer,
            tools=[
                *(tool(name, self._work) for name in ("work", "danger", "rewritten")),
                tool("alone", self._work, parallel_safe=False),
            ],
            authorize_tool=self._authorize,
            finish_result=self._finish,
            prepare=[
                plan_mode(lambda: self._plan),
                self._compaction,
                Trimming(max_messages=14),
            ],
        )
        self._session = session
        self._agent = Agent(
            config,
            conversation=conversation,
            steering_mode=self._life.modes[0],
            follow_up_mode=self._life.modes[1],
        )
        self._accepted.clear()
        self._queued.clear()
        self._agent.subscribe(session.record)
        self._agent.subscribe(self._listen)

    async def _run(self, running: Awaitable[RunResult], deeds: Deeds) -> RunResult:
        """Wait for a run with a limit; after a kill, continue with the file as of then."""
        self._events, self._deeds, self._file = [], deeds, None
        result = RunResult((), None, 0, "")
        with contextlib.suppress(NothingToContinue):
            result = await asyncio.wait_for(running, LIMIT_S)
        starts = [i for i, event in enumerate(self._events) if isinstance(event, AgentStart)]
        if starts:
            check_run(self._events[starts[0] :])
        self._resume_if_killed()
        return result

    def _resume_if_killed(self) -> None:
        """Continue with the file as of the kill; every event reported by then must be in it."""
        if self._file is None:
            return
        self._session.close()
        self._session.path.write_bytes(self._file)
        told = self._events[: self._killed_at + 1]
        self._file = None
        session, conversation = self._store.resume(self._session.id)
        said = users(conversation.messages())
        ended = [event.message for event in told if isinstance(event, MessageEnd)]
        assert all(message in said for message in users(ended)), "what was said is lost"
        for event in told:
            if isinstance(event, ToolExecutionEnd):
                result = conversation.call(event.tool_call_id).result
                assert not isinstance(result, Pending), "a result is lost"
                assert result.content == event.result.content
        for output in projection.entries(conversation.prompts):
            if isinstance(output, ToolOutput) and isinstance(output.result, Error):
                claims_not = NEVER_STARTED in str(output.result.content)
                assert not (claims_not and self._has_run(output)), "a call that ran is denied"
        self._begin(session, conversation)

    def _has_run(self, call: ToolOutput) -> bool:
        number = call.input.get("n") if isinstance(call.input, dict) else None
        # Not in another session: the one that this was forked from may have run it since.
        return (self._session.id, number) in self._ran

    def _listen(self, event: Event) -> None:
        index = len(self._events)
        self._events.append(event)
        if self._file is not None:
            return
        earlier = sum(each.type == event.type for each in self._events[:index])
        match self._deeds.get((event.type, earlier)):
            case "steer":
                self._agent.steer(self._queue("steered"))
            case "follow up":
                self._agent.follow_up(self._queue("followed up"))
            case "abort":
                self._agent.abort()
            case "plan":
                self._plan = not self._plan
            case "kill" if self._session.path.exists():
                self._file, self._killed_at = self._session.path.read_bytes(), index
                self._agent.abort()
            case _:
                pass

    def _text(self, kind: str) -> str:
        text = f"{kind} {next(self._numbers)}"
        self._accepted.add(text)
        return text

    def _queue(self, kind: str) -> UserMessage:
        text = self._text(kind)
        self._queued.add(text)
        return UserMessage.of(text)

    def _waiting(self) -> list[str]:
        """Return the queued messages, which stay queued."""
        steering = self._agent.clear_steering_queue()
        follow_ups = self._agent.clear_follow_up_queue()
        for message in steering:
            self._agent.steer(message)
        for message in follow_ups:
            self._agent.follow_up(message)
        return users([*steering, *follow_ups])

    def _check(self) -> list[str]:
        """Return the faults found between two runs."""
        agent, conversation = self._agent, self._agent.conversation
        found = faults(conversation)
        ran = Counter(number for _session, number in self._ran)
        found += [f"call {number} ran twice" for number, times in ran.items() if times > 1]
        said = Counter(users(conversation.messages()))
        found += [f"{text} was said twice" for text in self._accepted if said[text] > 1]
        waiting = self._waiting()
        found += [
            f"{text} is lost" for text in self._queued if said[text] + waiting.count(text) != 1
        ]
        state = agent.state
        if state.is_streaming or state.stream_message or state.pending_tool_calls:
            found.append("the agent is not idle")
        if self._session.path.exists():
            found += [str(finding) for finding in verify(self._session.path) if finding.damage]
            kept = self._store.read(self._session.id)
            if not conversation.waiting and Conversation(kept.prompts).messages() != (
                conversation.messages()
            ):
                found.append("the file is not what the conversation is")
        return found

    async def _answer(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        assert request_faults(request) == []
        step = self._script.pop(0) if self._script else says("more")
        for event in pieces(_numbered(step, self._numbers.__next__)):
            await asyncio.sleep(0)  # as a network would, so that an abort can land here
            match event:
                case Exception():
                    raise event
                case Gate():
                    await event.pass_through()
                case _:
                    yield event

    async def _summarize(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        assert request_faults(request) == []
        await asyncio.sleep(0)
        if next(self._summaries) % 3 == 0:
            raise ModelError("no summary today")
        for event in stream_of(says("in short", usage=Usage(5, 5))):
            yield event

    async def _work(
        self, tool_call_id: str, params: Mapping[str, Json], _cancel: object, context: ToolContext
    ) -> str:
        number = params["n"]
        assert isinstance(number, int)
        if self._file is None:  # after a kill there is no process to act
            self._ran.append((self._session.id, number))
        await misbehave(str(params["do"]))
        context("half")
        await asyncio.sleep(0)
        return "done " * (200 if params["do"] == "much" else 1)

    async def _finish(self, call: ToolCall, result: ToolResult) -> ToolResult:
        await asyncio.sleep(0)  # as a hook after the call would
        return Truncation(lambda _notice: None, limit_chars=200)(call, result)

    async def _authorize(self, call: ToolCall, _tool: Tool, _params: object) -> Verdict:
        await asyncio.sleep(0)  # as a hook before the call would
        if self._plan and call.name == "alone":
            return Deny("plan mode")
        if call.name == "danger":
            return Ask("sure?")
        if call.name == "rewritten" and isinstance(call.input, dict) and "by" not in call.input:
            return Allow(input={**call.input, "by": "a hook"})
        return Allow()


def _numbered(step: Step, number: Callable[[], int]) -> Step:
    """Give each call of a reply a unique number, by which its effect is known."""
    if not isinstance(step, Reply):
        return step
    content = tuple(
        {**block, "input": {**block["input"], "n": number()}}  # type: ignore[dict-item]
        if block["type"] == "tool_use"
        else block
        for block in step.content
    )
    return replace(step, content=content)
