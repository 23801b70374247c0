"""The session's prompt cache, kept over a pause if the user wants that."""

import time

import pytest

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import text_block
from agent_cli.contracts.wording import dollars
from agent_cli.policies.cache_warming import CacheWarming
from agent_cli.providers.anthropic.models import model_by_id
from tests.app.agents.test_agents import Program, Script, program
from tests.messages_api import reply
from tests.settings.files import write_user_settings

SETTINGS = """keep_cache_warm = "idle"
prices = { claude-sonnet-5-5 = "1000/1000" }
"""


def warming_of(run: Program) -> CacheWarming:
    warming = run.app._bench.watches.cache.warming
    assert warming is not None
    return warming


async def test_repetition_reads_the_cache_and_is_paid_by_the_session() -> None:
    """Byte for byte the last request, for one token; nothing is told to have been lost after it."""
    write_user_settings(SETTINGS)
    script = Script(go=[reply("ok"), reply("o"), reply("on")])
    async with program(script, attended=True) as run:
        await run.app.agent.prompt(UserMessage((text_block("word " * 4_000), text_block("go"))))
        before = run.app.agent.conversation.usage
        warming = warming_of(run)
        warming._clock = lambda: time.time() + 270
        assert await warming.renew()
        usage = run.app.agent.conversation.usage
        lines = run.app.cache_lines()
        warming._clock = time.time
        await run.prompt("more")

    first, second, third = script.bodies("go")
    assert {**second, "max_tokens": first["max_tokens"]} == first
    assert second["max_tokens"] == 1
    assert usage.cost_microdollars and before.cost_microdollars
    spent = usage.cost_microdollars - before.cost_microdollars
    assert 0 < spent < before.cost_microdollars / 10
    assert usage.cache_read_tokens - before.cache_read_tokens > 4_000
    [line] = [each for each in lines if "kept warm" in each]
    assert line.startswith(f"kept warm once in this run for {dollars(spent)}")
    assert "more" in str(third["messages"][-1])


@pytest.mark.parametrize("change", ["none", "compaction", "rewind", "model"])
async def test_what_the_next_request_does_not_begin_with_is_not_kept(change: str) -> None:
    """It would be paid for each time, and read by nobody."""
    write_user_settings(SETTINGS)
    script = Script(go=[reply("ok " * 99)] * 6 + [reply("Notes.")] * 2)
    async with program(script, attended=True) as run:
        for _ in range(6):
            await run.app.agent.prompt(UserMessage((text_block("word " * 4_000), text_block("go"))))
        match change:
            case "compaction":
                await run.app.compact("")
            case "rewind":
                run.app.sessions.rewind(run.app.agent.conversation.prompts[1].id)
            case "model":
                run.app.agent.set_model(model_by_id("claude-opus-5-5"))
            case _:
                pass
        sent = len(script.bodies("go"))
        warming = warming_of(run)
        warming._clock = lambda: time.time() + 270

        assert await warming.renew() is (change == "none")
        assert len(script.bodies("go")) == sent + (change == "none")


async def test_nothing_is_kept_warm_by_default_or_where_one_prompt_is_answered() -> None:
    """`-p` ends with its answer; the default costs nothing."""
    async with program(Script(go=[reply("ok")]), attended=True) as run:
        assert run.app._bench.watches.cache.warming is None
    write_user_settings(SETTINGS)
    async with program(Script(go=[reply("ok")])) as run:
        assert run.app._bench.watches.cache.warming is None
