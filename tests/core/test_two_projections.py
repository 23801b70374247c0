"""One timeline, two wire formats: exact bytes of both, and a run on either with the same loop."""

import json
from dataclasses import replace

from agent_cli.contracts.messages import CustomMessage, LlmMessage, UserMessage
from agent_cli.contracts.timeline import (
    Error,
    FileOutput,
    Json,
    Output,
    Success,
    WidgetOutput,
    text_block,
)
from agent_cli.core.agent import Agent
from agent_cli.core.api_messages import to_api
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from tests.core.chat_projection import ChatModel, to_chat
from tests.fakes import MODEL, ScriptedModel, calls, returns, says, tool, tool_use

ANTHROPIC = (
    '[{"role":"user","content":[{"type":"text","text":"Draw \\u00e9"}]},'
    '{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"s"},'
    '{"type":"text","text":"I draw."},'
    '{"type":"tool_use","id":"t1","name":"draw","input":{"size":2}},'
    '{"type":"tool_use","id":"t2","name":"send","input":{}}]},'
    '{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":'
    '[{"type":"text","text":"drawn"},'
    '{"type":"text","text":"[file for the user: /out.png] a tree"}]},'
    '{"type":"tool_result","tool_use_id":"t2","content":'
    '[{"type":"text","text":"no network"}],"is_error":true},'
    '{"type":"text","text":"And bigger"}]},'
    '{"role":"assistant","content":[{"type":"text","text":"Done."}]},'
    '{"role":"user","content":[{"type":"text","text":"(no input: go on)"}]}]'
)
CHAT = (
    '[{"role":"system","content":"Be brief."},'
    '{"role":"user","content":"Draw \\u00e9"},'
    '{"role":"assistant","content":"I draw.","tool_calls":['
    '{"id":"t1","type":"function","function":{"name":"draw","arguments":"{\\"size\\": 2}"}},'
    '{"id":"t2","type":"function","function":{"name":"send","arguments":"{}"}}]},'
    '{"role":"tool","tool_call_id":"t1",'
    '"content":"drawn[file for the user: /out.png] a tree"},'
    '{"role":"tool","tool_call_id":"t2","content":"Error: no network"},'
    '{"role":"user","content":"And bigger"},'
    '{"role":"assistant","content":"Done."},'
    '{"role":"user","content":"(no input: go on)"}]'
)


def drawn() -> list[LlmMessage]:
    """Return the input of the next request, after every kind of entry that is sent."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("Draw é"))
    thought = says("", thinking="Hm.").content[:1]
    asks = calls(tool_use("draw", {"size": 2}, "t1"), tool_use("send", {}, "t2"), text="I draw.")
    conversation.add_reply(replace(asks, content=(*thought, *asks.content)))
    conversation.settle_call("t2", Error((text_block("no network"),)))
    conversation.attach(FileOutput("", 0, "t1", "/out.png", "image/png", "a tree"))
    conversation.attach(WidgetOutput("", 0, "t1", "table", [[1]], "1"))
    conversation.settle_call("t1", Success((text_block("drawn"),)))
    conversation.add_user(UserMessage.of("And bigger"))
    conversation.discard_reply("half of", "error")
    conversation.add_reply(says("Done."))
    conversation.note(CustomMessage("note", {"by": "a plugin"}))
    conversation.begin()
    return [m for m in conversation.context() if not isinstance(m, CustomMessage)]


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def test_messages_api_projection_is_byte_exact() -> None:
    """S2-05, S2-06, S2-07, S2-08, S2-46: the request for the Messages API."""
    assert compact(to_api(drawn())) == ANTHROPIC


def test_chat_api_projection_is_byte_exact() -> None:
    """S2-46: the same timeline for another API; only the projection differs."""
    assert compact(to_chat(["Be brief."], drawn())) == CHAT


async def test_run_is_the_same_with_either_api() -> None:
    """S2-46, C21: loop, executor and conversation do not depend on the API."""
    arguments = json.dumps({"at": "the hill"})
    call: Json = {"id": "t1", "type": "function"}
    assert isinstance(call, dict)
    call["function"] = {"name": "look", "arguments": arguments}
    chat = ChatModel({"content": "I look.", "tool_calls": [call]}, {"content": "A tree."})
    ours = ScriptedModel(
        calls(tool_use("look", {"at": "the hill"}, "t1"), text="I look."), says("A tree.")
    )

    told: list[object] = []
    for model in (chat, ours):
        look = tool("look", returns("a tree"))
        agent = Agent(LoopConfig(model=MODEL, stream_fn=model, tools=[look]))
        await agent.prompt("What is there?")
        told.append([(out.kind, getattr(out, "block", None)) for out in outputs(agent)])

    assert told[0] == told[1]
    assert chat.requests[-1][-1] == {"role": "tool", "tool_call_id": "t1", "content": "a tree"}


def outputs(agent: Agent) -> list[Output]:
    return [output for prompt in agent.conversation.prompts for output in prompt.output]
