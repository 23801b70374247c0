"""One provider in several event loops: one after the other, in threads, and after `aclose`."""

import asyncio
import threading
from pathlib import Path

import pytest

from agent_cli.core.agent import Agent
from agent_cli.core.loop_config import LoopConfig
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.messages import AnthropicMessages
from agent_cli.providers.anthropic.models import get_model
from agent_cli.providers.retries import RetryPolicy
from tests.fakes import LIMIT_S
from tests.messages_api import FakeMessagesApi, Gate, reply, serve_in_thread

MODEL = get_model("claude-sonnet-5-5")


def provider_of(api: FakeMessagesApi, record: Path | None = None) -> AnthropicMessages:
    return AnthropicMessages(Connection(base_url=api.base_url, api_key="k", record=record))


def agent_of(provider: AnthropicMessages) -> Agent:
    return Agent(LoopConfig(model=MODEL, stream_fn=provider.stream))


async def answer_of(agent: Agent, prompt: str = "hi") -> str:
    result = await agent.prompt(prompt)
    assert result.final_message, result.error
    return result.final_message.text


@pytest.mark.parametrize("preloads", [True, False])
def test_one_agent_answers_in_one_event_loop_after_the_other(*, preloads: bool) -> None:
    """Every second `asyncio.run` failed with "Event loop is closed"."""
    with serve_in_thread(answer=lambda _request: reply("yes")) as api:
        provider = provider_of(api)
        agent = agent_of(provider)
        if preloads:
            provider.preload()

        answers = [asyncio.run(answer_of(agent)) for _ in range(6)]

    assert answers == ["yes"] * 6
    assert api.connections_made == 6


async def test_a_closed_provider_opens_new_connections_when_it_is_used_again() -> None:
    async with FakeMessagesApi(*[reply("yes")] * 4) as api:
        provider = provider_of(api)
        agent = agent_of(provider)
        answers = [await answer_of(agent), await answer_of(agent)]
        await provider.aclose()
        await provider.aclose()
        answers += [await answer_of(agent), await answer_of(agent)]
        await provider.aclose()

    assert answers == ["yes"] * 4
    assert api.connections_made == 2


async def test_a_provider_closed_during_a_reply_asks_again_over_new_connections() -> None:
    """`aclose` in another task: the call is retried, and a retry used the closed client."""
    gate = Gate()
    async with FakeMessagesApi(reply("lost", gate=gate, hold_at=2), reply("yes")) as api:
        provider = AnthropicMessages(
            Connection(base_url=api.base_url, api_key="k"), RetryPolicy(max=1, other_base_s=0)
        )
        asking = asyncio.ensure_future(answer_of(agent_of(provider)))
        await asyncio.to_thread(gate.reached.wait, LIMIT_S)
        await provider.aclose()

        answer = await asyncio.wait_for(asking, LIMIT_S)
        gate.open()
        await provider.aclose()

    assert answer == "yes"


async def test_a_request_that_begins_while_the_provider_closes_uses_another_client() -> None:
    """It was given the client that closed, and failed with a RuntimeError of the HTTP library."""
    async with FakeMessagesApi(answer=lambda _request: reply("yes")) as api:
        provider = AnthropicMessages(
            Connection(base_url=api.base_url, api_key="k"), RetryPolicy(max=1, other_base_s=0)
        )
        outcomes: list[object] = []
        for ticks in range(12):
            await answer_of(agent_of(provider))
            asking = asyncio.ensure_future(answer_of(agent_of(provider)))
            for _ in range(ticks):
                await asyncio.sleep(0)
            await provider.aclose()
            outcomes += await asyncio.gather(asking, return_exceptions=True)
        await provider.aclose()

    assert outcomes == ["yes"] * 12


def test_threads_share_a_provider() -> None:
    """Each has its own event loop; they ask at the same time, several times each."""
    answers: list[str] = []
    together = threading.Barrier(3)

    async def work(provider: AnthropicMessages) -> None:
        together.wait(LIMIT_S)
        agents = [agent_of(provider) for _ in range(2)]
        for _ in range(3):
            answers.extend(await asyncio.gather(*map(answer_of, agents)))

    with serve_in_thread(answer=lambda _request: reply("yes")) as api:
        provider = provider_of(api)
        threads = [
            threading.Thread(target=lambda: asyncio.run(work(provider)), daemon=True)
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)

    assert answers == ["yes"] * 18


def test_one_recording_holds_the_replies_of_all_event_loops(tmp_path: Path) -> None:
    """A client that begins must not empty it, and a replay goes on where it stopped."""
    tape = tmp_path / "tape.jsonl"
    tape.write_text("an older recording")
    with serve_in_thread(reply("one"), reply("two")) as api:
        agent = agent_of(provider_of(api, record=tape))
        for _ in range(2):
            asyncio.run(answer_of(agent))

    replaying = agent_of(AnthropicMessages(Connection(replay=tape)))

    assert [asyncio.run(answer_of(replaying)) for _ in range(2)] == ["one", "two"]
