"""Arguments of wrong types: each is refused with a sentence."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from agent_cli import (
    Agent,
    AgentContext,
    Allow,
    AssistantMessage,
    CustomMessage,
    Deny,
    Event,
    LoopConfig,
    UserMessage,
    agent_loop,
    agent_loop_continue,
    text_block,
)

Wrong = Callable[[Any, LoopConfig], Any]  # Any: a wrong type is the point


async def _listen_later(_event: Event) -> None:
    raise AssertionError("a listener's coroutine ran")


def _listen_in_pieces(_event: Event) -> Any:
    yield


def _any(value: object) -> Any:
    return value


def _question(agent: Agent) -> str:
    return next((call.tool_call_id for call in agent.conversation.questions()), "none")


_NO_INPUTS: Final[tuple[Any, ...]] = (
    5,
    [],
    "x",
    {"a": object()},
    {1: 2},
    {"a": float("nan")},
    (1,),
    True,
)
_inputs = itertools.cycle(_NO_INPUTS)
_NO_NUMBERS: Final[tuple[dict[str, Any], ...]] = (
    {"max_rounds": "5"},
    {"max_rounds": True},
    {"concurrency": 0},
    {"max_tokens": -1},
    {"tool_timeout_s": float("nan")},
    {"temperature": "warm"},
    {"thinking_budgets": {"high": None}},
)
_numbers = itertools.cycle(_NO_NUMBERS)
_HELLO = (text_block("hello"),)
_CALL = {"type": "tool_use", "id": "wrong", "name": "look", "input": {}}
_WAITING = AgentContext(messages=(AssistantMessage((_any(_CALL),), "tool_use"),))

WRONG: Final[dict[str, Wrong]] = {
    "steer(5)": lambda agent, _options: agent.steer(5),
    "steer(None)": lambda agent, _options: agent.steer(None),
    "steer('')": lambda agent, _options: agent.steer(" "),
    "follow_up([])": lambda agent, _options: agent.follow_up([]),
    "prompt(object)": lambda agent, _options: agent.prompt(object()),
    "prompt('')": lambda agent, _options: agent.prompt(""),
    "prompt(reply)": lambda agent, _options: agent.prompt(AssistantMessage(_HELLO)),
    "prompt(images)": lambda agent, _options: agent.prompt("go", 5),
    "prompt(an image)": lambda agent, _options: agent.prompt("go", ["x"]),
    "prompt(model)": lambda agent, _options: agent.prompt("go", model="claude"),
    "prompt(author)": lambda agent, _options: agent.prompt(UserMessage(_HELLO, author=_any(5))),
    "prompt(data)": lambda agent, _options: agent.prompt(CustomMessage("n", _any(object()))),
    "set_tools(x)": lambda agent, _options: agent.set_tools("x"),
    "set_tools(None)": lambda agent, _options: agent.set_tools(None),
    "set_tools([5])": lambda agent, _options: agent.set_tools([5]),
    "set_model(None)": lambda agent, _options: agent.set_model(None),
    "set_model(name)": lambda agent, _options: agent.set_model("claude"),
    "set_thinking_level": lambda agent, _options: agent.set_thinking_level("hgih"),
    "set_system_prompt": lambda agent, _options: agent.set_system_prompt(None),
    "set_steering_mode": lambda agent, _options: agent.set_steering_mode("some"),
    "set_follow_up_mode": lambda agent, _options: agent.set_follow_up_mode(0),
    "replace_messages": lambda agent, _options: agent.replace_messages("text"),
    "replace_messages(None)": lambda agent, _options: agent.replace_messages(None),
    "append_message": lambda agent, _options: agent.append_message({"role": "user"}),
    "append_message(input)": lambda agent, _options: agent.append_message(
        AssistantMessage((_any({**_CALL, "input": [1]}),))
    ),
    "append_message(usage)": lambda agent, _options: agent.append_message(
        AssistantMessage(_HELLO, usage=_any(5))
    ),
    "adopt": lambda agent, _options: agent.adopt(None),
    "approve(None)": lambda agent, _options: agent.approve(None),
    "approve(unknown)": lambda agent, _options: agent.approve("unknown"),
    "approve(edited)": lambda agent, _options: agent.approve(
        _question(agent), edited=next(_inputs)
    ),
    "reject(reason)": lambda agent, _options: agent.reject(_question(agent), None),
    "subscribe(None)": lambda agent, _options: agent.subscribe(None),
    "subscribe(async)": lambda agent, _options: agent.subscribe(_listen_later),
    "subscribe(generator)": lambda agent, _options: agent.subscribe(_listen_in_pieces),
    "agent_loop(text)": lambda _agent, options: agent_loop(_any("go"), AgentContext(), options),
    "agent_loop(context)": lambda _agent, options: agent_loop(["go"], _any(None), options),
    "agent_loop(config)": lambda _agent, _options: agent_loop(["go"], AgentContext(), _any(5)),
    "LoopConfig(a number)": lambda _agent, options: replace(options, **next(_numbers)),
    "LoopConfig(a hook)": lambda _agent, options: replace(options, authorize_tool=_any("ask")),
    "decisions": lambda _agent, options: agent_loop_continue(
        _WAITING, options, decisions=_any({"wrong": True})
    ),
    "decisions(unknown)": lambda _agent, options: agent_loop_continue(
        _WAITING, options, decisions={"unknown": Allow()}
    ),
    "decisions(input)": lambda _agent, options: agent_loop_continue(
        _WAITING, options, decisions={"wrong": Allow(input=_any(next(_inputs)))}
    ),
    "decisions(reason)": lambda _agent, options: agent_loop_continue(
        _WAITING, options, decisions={"wrong": Deny(_any(5))}
    ),
}
