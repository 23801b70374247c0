"""The input of prompt and end hooks, and their order among the program's own parts."""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_cli.app.hooks import waits_for
from agent_cli.contracts.events import AgentEnd, AgentStart, Event, EventSink
from agent_cli.contracts.messages import UserMessage
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.returned_values import queued
from agent_cli.hooks.definition import Hook
from agent_cli.hooks.event_hooks import EventHooks
from agent_cli.hooks.events import Payloads
from agent_cli.hooks.lifecycle import Lifecycle
from agent_cli.hooks.run import HookEnvironment
from agent_cli.hooks.runs import HookRuns
from tests.fakes import notices, says, scripted_agent
from tests.waiting import until

NO_SECRETS = "! grep -q secret || { echo no secrets >&2; exit 2; }"
UNTIL_GO = "touch begun; until test -e go; do sleep 0.02; done"


def lifecycle(
    folder: Path,
    *hooks: Hook,
    idle_after_s: float | None = None,
    publish: EventSink = lambda _event: None,
) -> Lifecycle:
    runs = HookRuns(hooks, HookEnvironment(folder, os.environ))
    payloads = Payloads(folder, session_id=lambda: "s", transcript=lambda: "", mode=lambda: "ask")
    asking = EventHooks(runs, payloads, conversation=Conversation, publish=publish)
    return Lifecycle(asking, end_reason="other", idle_after_s=idle_after_s)


async def test_stop_hook_runs_only_if_no_follow_up_continues_the_run(tmp_path: Path) -> None:
    """The program's own follow-ups keep the run going and must not be lost."""
    hook = Hook(event="Stop", command="touch asked; echo more >&2; exit 2")
    queue = [[UserMessage.of("job 1 has ended")], None]
    take = lifecycle(tmp_path, hook).follow_ups_beside(lambda: queue.pop(0))

    [own] = await queued(take)
    assert own.text == "job 1 has ended"
    assert not (tmp_path / "asked").exists()

    [sent_back] = await queued(take)
    assert "more" in sent_back.text


async def test_hook_that_is_waited_for_long_is_told_of_once(tmp_path: Path) -> None:
    """Not one in the background, which nothing waits for."""
    slow = Hook(event="Stop", command="until test -e told; do sleep 0.02; done", origin="here:1")
    late = Hook(event="Stop", command="until test -e told; do sleep 0.03; done", background=True)
    told: list[str] = []

    def tell(hook: Hook) -> None:
        told.append(waits_for(hook))
        (tmp_path / "told").touch()

    around = HookEnvironment(tmp_path, os.environ)
    behind = asyncio.TaskGroup()
    runs = HookRuns(
        (slow, late), around, background=behind.create_task, waits=tell, slow_after_s=0.0
    )
    async with behind:
        await runs.run(runs.hooks, {})

    [line] = told
    assert line == f"waiting for the Stop hook {slow.command} (at most 600 s, here)"


async def test_idle_notification_hook_runs_once_while_the_user_is_waited_for(
    tmp_path: Path,
) -> None:
    """A run, and a question with its own notification, do not count as waiting."""
    hook = Hook(event="Notification", matcher="idle_prompt", command="cat >> told.json; echo >> n")
    told = tmp_path / "told.json"
    async with lifecycle(tmp_path, hook, idle_after_s=0.05) as hooks:
        hooks.listen(AgentEnd((), "waiting_for_approval", None))
        hooks.listen(AgentEnd((), "end_turn", None))
        hooks.listen(AgentStart())
        hooks.listen(AgentEnd((), "end_turn", None))
        await until(lambda: (tmp_path / "n").exists())

    assert json.loads(told.read_text())["notification_type"] == "idle_prompt"
    assert (tmp_path / "n").read_text() == "\n"


async def test_words_of_a_hook_that_prolongs_a_run_are_not_the_users(tmp_path: Path) -> None:
    """Or the model would have the user's permission for them, and the next one's count restart."""
    hook = Hook(event="Notification", command="echo broke >&2; exit 2", background=True, wakes=True)
    news: list[Event] = []
    async with lifecycle(tmp_path, hook, idle_after_s=0.0, publish=news.append) as hooks:
        hooks.listen(AgentEnd((), "end_turn", None))
        await until(lambda: news)
        [message] = await hooks.follow_ups()

    assert message.text == "[A hook of the user's says: broke]"
    assert not message.is_typed


@pytest.mark.parametrize(
    ("hooks_of", "is_sent"),
    [
        ([Hook(event="UserPromptSubmit", command=UNTIL_GO)], False),
        (
            [Hook(event=each, command=UNTIL_GO) for each in ("SessionStart", "UserPromptSubmit")],
            False,
        ),
        ([Hook(event="SessionStart", command=UNTIL_GO)], True),
    ],
)
async def test_prompt_that_no_guard_has_passed_is_not_sent_with_the_next(
    hooks_of: Sequence[Hook], is_sent: bool, tmp_path: Path
) -> None:
    """Ctrl-C while the guard looks, or before it does; without a guard nothing is held back."""
    news: list[Event] = []
    async with lifecycle(tmp_path, *hooks_of, publish=news.append) as hooks:
        agent, model, _ = scripted_agent(says("Hi."), options=LoopConfig(prepare=[hooks]))
        async with asyncio.TaskGroup() as group:
            first = group.create_task(agent.prompt("my secret"))
            await until(lambda: (tmp_path / "begun").exists())
            agent.abort()
        (tmp_path / "go").touch()
        await agent.prompt("hello")

    assert first.result().stop_reason == "aborted"
    assert ("secret" in str(model.sent())) is is_sent
    held_back = "stopped before a hook had decided; this message was not sent: my secret"
    assert notices(news) == ([] if is_sent else [held_back])


async def test_guard_is_asked_about_the_prompt_of_a_killed_program(tmp_path: Path) -> None:
    """It may have been killed while the guard looked; the next prompt would take it along."""
    news: list[Event] = []
    hook = Hook(event="UserPromptSubmit", command=NO_SECRETS)
    async with lifecycle(tmp_path, hook, publish=news.append) as hooks:
        agent, model, _ = scripted_agent(says("Hi."), options=LoopConfig(prepare=[hooks]))
        agent.conversation.begin(UserMessage.of("my secret"))
        agent.conversation.complete()
        await agent.prompt("hello")

    assert "secret" not in str(model.sent())
    assert "hello" in str(model.sent())
    assert notices(news) == ["a hook blocked this message; the run goes on without it: no secrets"]
