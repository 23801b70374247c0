"""Sample sessions, and strategies for entries and whole conversations."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hypothesis import strategies as st

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.messages import CustomMessage, UserMessage
from agent_cli.contracts.provider import Reply
from agent_cli.contracts.timeline import (
    BlockOutput,
    CompactionOutput,
    CustomOutput,
    DiscardedOutput,
    Error,
    FileOutput,
    Json,
    ModelUsage,
    Output,
    Pending,
    ReplyOutput,
    Success,
    TextOutput,
    ThinkingOutput,
    ToolOutput,
    TrimOutput,
    Usage,
    UserOutput,
    WidgetOutput,
    text_block,
)
from agent_cli.contracts.tooling import Allow, Ask, Tool, ToolContext, ToolResult, Verdict
from agent_cli.core.agent import Agent
from agent_cli.core.api_messages import to_api
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.session_store.session import Session
from agent_cli.session_store.store import SessionStore
from tests.fakes import (
    MODEL,
    NOT_THE_USERS,
    ScriptedModel,
    calls,
    does,
    problems,
    returns,
    says,
    tool,
    tool_use,
)

WORKSPACE = Path("/somewhere/project")


def recorded(store: SessionStore, conversation: Conversation | None = None) -> Session:
    """Return a new session that listens first to *conversation*, or to an empty one."""
    conversation = conversation or Conversation()
    session = store.create(conversation, WORKSPACE)
    conversation.publish = session.record
    return session


def faults(conversation: Conversation) -> list[str]:
    """Return the API's reasons to refuse *conversation* once its questions are answered."""
    prompts = [replace(prompt, output=[*prompt.output]) for prompt in conversation.prompts]
    answered = Conversation(prompts)
    answered.answer_open_calls()
    context = [m for m in answered.context() if not isinstance(m, CustomMessage)]
    return [fault for fault in problems(to_api(context)) if fault != NOT_THE_USERS]


def ask_about(name: str) -> Callable[[ToolCall, Tool, object], Verdict]:
    """Return a policy that asks a person about one tool."""

    def authorize(call: ToolCall, _tool: Tool, _params: object) -> Verdict:
        return Ask(f"{name} needs a yes") if call.name == name else Allow()

    return authorize


def agent_with(
    conversation: Conversation, session: Session, *script: Reply, tools: list[Tool] | None = None
) -> Agent:
    """Return an agent on a script, with *session* as its first listener."""
    config = LoopConfig(
        model=MODEL,
        stream_fn=ScriptedModel(*script),
        tools=[tool("look", returns("a tree")), tool("write", _draw)] if tools is None else tools,
        authorize_tool=ask_about("write"),
        approval="defer",
    )
    agent = Agent(config, conversation=conversation)
    agent.subscribe(session.record)
    return agent


async def _show(context: ToolContext) -> ToolResult:
    id = context.tool_call_id
    context.add_output(FileOutput(f"file-{id}", 0, id, "out.txt", "text/plain", "two lines"))
    context.add_output(WidgetOutput(f"widget-{id}", 0, id, "table", [[1, 2]], "1 | 2"))
    return ToolResult.of("written")


_draw = does(_show)


async def a_long_talk(store: SessionStore) -> tuple[Session, Conversation]:
    """Return a session with every kind of entry in it, and an open question."""
    conversation = Conversation(user_id="ada")
    session = store.create(conversation, WORKSPACE)
    agent = agent_with(
        conversation,
        session,
        calls(tool_use("look", {"at": "$ref"}, "t1"), tool_use("write", {}, "t2"), text="Wait."),
        says("I wrote it.", thinking="Hm."),
        says("Hidden."),
        calls(tool_use("missing", {}, "t3"), tool_use("look", {}, "t4")),
        says("No."),
        calls(tool_use("look", {}, "t5"), tool_use("write", {}, "t6"), tool_use("look", {}, "t7")),
    )
    await agent.prompt("Write me\na file.")
    await agent.approve("t2")
    await agent.trigger(visible=False)
    await agent.prompt("And again?")
    agent.append_message(CustomMessage("note", {"by": "a plugin"}))
    conversation.add_usage(Usage(7, 7))
    conversation.compact("We wrote a file.", conversation.prompts[-1].output[-1].id)
    conversation.begin(UserMessage.of("Never mind"))
    conversation.discard_reply("I was", "aborted")
    conversation.trim(conversation.prompts[-1].output[0].id, removed_messages=2)
    conversation.complete()
    await agent.prompt("Once more.")
    assert conversation.waiting
    return session, conversation


texts = st.text(max_size=8)
jsons: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda part: (
        st.lists(part, max_size=3)
        | st.dictionaries(texts | st.sampled_from(["$blob", "$", "kind"]), part, max_size=3)
    ),
    max_leaves=6,
)
blocks = st.builds(text_block, texts) | st.dictionaries(texts, jsons, max_size=3).map(
    lambda more: {**more, "type": "image"}
)
call_blocks = st.builds(
    lambda id, name, given: tool_use(name, given, id), texts, texts, st.dictionaries(texts, jsons)
)
contents = st.lists(blocks, max_size=3).map(tuple)
times = st.integers(0, 2**53)
maybe_times = st.none() | times
usages = st.builds(
    Usage, times, times, times, times, times, cost_microdollars=st.none() | st.integers(0, 10**9)
)
results = (
    st.builds(Pending, st.sampled_from(["queued", "approval", "deferred"]), texts)
    | st.builds(Success, contents, jsons)
    | st.builds(Error, contents, jsons)
)
outputs: st.SearchStrategy[Output] = st.one_of(
    st.builds(UserOutput, texts, times, contents, texts),
    st.builds(BlockOutput, texts, times, texts, blocks),
    st.builds(TextOutput, texts, times, texts, blocks),
    st.builds(ThinkingOutput, texts, times, texts, blocks),
    st.builds(
        ToolOutput,
        texts,
        times,
        texts,
        call_blocks,
        results,
        st.none() | texts,
        maybe_times,
        st.sampled_from(["approved", "rejected", None]),
        maybe_times,
        maybe_times,
        maybe_times,
    ),
    st.builds(
        ReplyOutput,
        *(texts, times, texts, texts, texts, usages, st.none() | texts),
        st.lists(st.builds(ModelUsage, texts, usages), max_size=2).map(tuple),
    ),
    st.builds(DiscardedOutput, texts, times, texts, texts, st.none() | texts),
    st.builds(FileOutput, texts, times, texts, texts, texts, texts),
    st.builds(WidgetOutput, texts, times, texts, texts, jsons, texts),
    st.builds(CompactionOutput, texts, times, texts, st.none() | texts, times, times),
    st.builds(TrimOutput, texts, times, texts, times, texts),
    st.builds(CustomOutput, texts, times, texts, jsons),
)
