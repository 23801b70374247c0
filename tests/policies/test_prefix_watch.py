"""Report the cost of a change to the cached prefix, once for each change."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent_cli.contracts.dialogs import Reread
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import Block, Json, Usage
from agent_cli.contracts.tooling import Tool
from agent_cli.core.conversation import Conversation
from agent_cli.core.turn import Turn
from agent_cli.plugins.api import Plugin, PluginContext
from agent_cli.policies.history_cuts import history_of
from agent_cli.policies.prefix_watch import PrefixWatch
from tests.fakes import MODEL, calls, notices, returns, says, tool, tool_use
from tests.plugins.contributing import Contributing, two_dollars_a_million
from tests.policies.histories import Listener, turn_of
from tests.tables import each_row

LONG = "x" * 40_000


def in_turn(*rounds: Callable[[PluginContext], None]) -> Plugin:
    """Return a plugin with a different effect in each round; the last one repeats."""
    left = list(rounds)

    def prepare(ctx: PluginContext) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(ctx)

    return Plugin(name="p", prepare=prepare)


def nothing(_ctx: PluginContext) -> None:
    pass


def offers(*tools: Tool) -> Callable[[PluginContext], None]:
    return lambda ctx: ctx.tools.extend(tools)


def appends(*texts: str) -> Callable[[Turn], None]:
    """Return a contributor that appends another text in each round; the last one repeats."""
    left = list(texts)
    return lambda turn: turn.system.append(left.pop(0) if len(left) > 1 else left[0])


async def test_change_of_tools_is_reported_once_with_its_cost() -> None:
    """C10: everything after the tools is reread; 40,000 characters are 10,000 tokens."""
    look, grep = (tool(name, returns("")) for name in ("look", "grep"))
    run = Contributing(
        [in_turn(nothing, offers(look, grep), offers(look, grep), offers(grep))],
        *map(says, ("one", "two", "three", "four")),
    )
    await run.prompt(LONG)
    assert run.notices() == []
    await run.prompt()
    await run.prompt()
    assert len(run.notices()) == 1
    await run.prompt()

    assert run.notices() == [
        "the tools changed (+grep, +look): about 10,025 tokens not read from the cache ($0.0251)",
        "the tools changed (-look): about 10,018 tokens not read from the cache ($0.0251)",
    ]


async def test_changed_tool_definition_is_reported() -> None:
    """The model sees a description; tools are cached for an hour, at twice the input's price."""
    look = tool("look", returns(""))
    other = replace(look, description=LONG)
    run = Contributing([in_turn(offers(look), offers(other))], says("one"), says("two"))
    await run.prompt()
    await run.prompt()

    assert run.notices() == [
        "the tools changed (their order or definitions): about 10,013 tokens not read from the"
        " cache ($0.0401)"
    ]


async def test_changed_context_costs_only_the_tokens_after_it() -> None:
    """C10: tools, the stable block and unchanged context before it stay cached, not counted."""
    huge = tool("huge", returns(""))
    run = Contributing(
        [],
        says("one"),
        says("two"),
        tools=[replace(huge, description=LONG)],
        before=[appends(LONG), appends("a", "b" * 40_000)],
    )
    await run.prompt()
    await run.prompt()

    assert run.notices() == [
        "the rest of the system prompt changed: about 10,001 tokens not read from the cache"
        " ($0.025)"
    ]


async def test_changed_system_prompt_is_reported() -> None:
    """C10: a new stable block is the most expensive change."""
    run = Contributing([], says("one"), says("two"))
    await run.prompt()
    run.agent.set_system_prompt(LONG)
    await run.prompt()

    assert run.notices() == [
        "the system prompt changed: about 10,001 tokens not read from the cache ($0.04)"
    ]


async def test_change_for_a_model_without_a_price_is_reported_in_tokens_only() -> None:
    """An unknown model has no price, and none is invented."""
    run = Contributing(
        [],
        says("one"),
        says("two"),
        price=lambda _id, _usage: None,
        before=[appends("a", LONG)],
    )
    await run.prompt()
    await run.prompt()

    assert run.notices() == [
        "the rest of the system prompt changed: about 10,001 tokens not read from the cache"
    ]


async def test_a_conversation_without_a_cache_causes_no_report() -> None:
    """Content that was never cached costs nothing extra: a new conversation, a model before it."""
    run = Contributing(
        [],
        says("one"),
        says("two"),
        says("three"),
        before=[appends("a", "b", "c")],
    )
    await run.prompt()
    run.agent.reset()
    await run.prompt()
    run.agent.set_model(Model("other-model", api="scripted"))
    await run.prompt()

    assert run.notices() == []


@each_row(("chars", "told"), [(15_960, 0), (16_000, 1)])
async def test_reading_anew_for_less_than_a_cent_is_not_told(chars: int, told: int) -> None:
    """A sentence in front of the answer about a tenth of a cent only distracts."""
    run = Contributing(
        [], says("one"), says("two"), before=[appends(LONG), appends("a", "b" * chars)]
    )
    await run.prompt()
    await run.prompt()

    assert len(run.notices()) == told


async def test_unchanged_prefix_is_not_reported() -> None:
    """Rounds with tools, and equal tools created again each time."""
    run = Contributing(
        [Plugin(name="p", prepare=lambda ctx: ctx.add_tool(tool("look", returns("a tree"))))],
        calls(tool_use("look")),
        says("done"),
    )
    await run.prompt()

    assert run.notices() == []


async def test_image_in_the_prefix_counts_as_an_image_and_not_as_text() -> None:
    """Counted as text, this image would be half a million tokens."""
    data: Json = {"type": "base64", "media_type": "image/png", "data": "A" * 2_000_000}
    picture: Block = {"type": "image", "source": data}
    look = tool("look", returns(""))
    run = Contributing([in_turn(nothing, offers(look))], says("one"), says("two"))
    await run.prompt("what are these?", [picture] * 4)
    await run.prompt()

    assert run.notices() == [
        "the tools changed (+look): about 6,419 tokens not read from the cache ($0.0161)"
    ]


CACHED = Usage(10, 5, 0, 50_000)
SHOWN = "about 50,016 tokens not read from the cache ($0.125)"


class Watched:
    """A watch, its conversation of one cached request of 50,000 tokens, and who may be asked."""

    def __init__(self, answer: bool | None = None, *, seen: bool = True) -> None:
        self.now_s = time.time()
        self.listener = Listener()
        self.asked: list[str] = []
        self.losses_expected = 0
        self.unsent = [0, 0, 0]
        self.system: list[str] = []
        self.watch = PrefixWatch(
            two_dollars_a_million,
            ask_above=20_000,
            consent=self._consent,
            unsent=lambda _messages, _model_id: tuple(self.unsent),
            on_told=self._told,
            clock=lambda: self.now_s,
        )
        self._answer = answer
        self.conversation = Conversation()
        self.conversation.begin(UserMessage.of(LONG), model=MODEL)
        self._seen = seen

    async def start(self) -> "Watched":
        """Send the first request; another program did if the watch has not *seen* it."""
        if self._seen:
            await self.watch(self.turn())
        self.conversation.add_reply(says("ok", usage=CACHED))
        self.conversation.complete()
        self.conversation.begin(UserMessage.of("go on"), model=MODEL)
        return self

    def turn(self, **changed: Any) -> Turn:  # Any: fields of the options
        turn = turn_of(self.conversation, self.listener)
        turn.config = replace(turn.config, **changed)
        turn.system = [*self.system]
        return turn

    async def _consent(self, reread: Reread) -> bool | None:
        self.asked.append(str(reread))
        return self._answer

    def _told(self) -> None:
        self.losses_expected += 1

    @property
    def told(self) -> list[str]:
        return notices(self.listener.events)


async def test_loss_by_a_compaction_is_expected_in_another_process_too() -> None:
    """It was told with its size before and after, by whichever program made it."""
    run = await Watched(seen=False).start()
    last = run.conversation.prompts[-1].input
    assert last
    run.conversation.compact("notes", last.id)

    await run.watch(run.turn())

    assert (run.told, run.losses_expected) == ([], 1)


@each_row(
    ("changed", "passed_s", "seen", "cause"),
    [
        ({}, 10, True, None),
        ({}, 10, False, None),
        ({}, 720, True, "12 minutes passed, and the cache lives five"),
        ({}, 720, False, "12 minutes passed, and the cache lives five"),
        ({"thinking_level": "high"}, 10, True, "the effort changed"),
        (
            {"thinking_level": "high"},
            720,
            True,
            "the effort changed and 12 minutes passed, and the cache lives five",
        ),
        *(
            (
                {"model": Model("other", api="scripted")},
                10,
                seen,
                f"the model changed from {MODEL.id} to other",
            )
            for seen in (True, False)
        ),
    ],
)
async def test_what_is_read_anew_is_told_and_asked_before_it_is_paid(
    changed: dict[str, Any], passed_s: float, *, seen: bool, cause: str | None
) -> None:
    """Also in a session that another program began; without an answer the request is sent.

    Who comes back to an open session after a while is told the price, but not held up.
    """
    run = await Watched(None, seen=seen).start()
    run.now_s += passed_s

    await run.watch(run.turn(**changed))
    await run.watch(run.turn(**changed))

    expected = [f"{cause}: {SHOWN}"] if cause else []
    assert run.told == expected
    assert run.asked == ([] if seen and cause and cause.startswith("12") else expected)
    assert run.losses_expected == len(expected)


async def test_a_person_who_does_not_want_to_pay_keeps_the_prompt() -> None:
    """It is asked about again with the next prompt; in the middle of a run nobody is asked."""
    run = await Watched(False, seen=False).start()
    run.now_s += 720

    for _ in range(2):
        with pytest.raises(AgentCliError, match="not sent: your next prompt goes together"):
            await run.watch(run.turn())
    run.conversation.add_reply(says("ok", usage=CACHED))
    run.now_s += 720
    await run.watch(run.turn())

    assert len(run.asked) == 2


async def test_a_price_quoted_for_a_command_is_neither_told_nor_asked_again() -> None:
    """The command told it; another cause that comes with it is told all the same."""
    run = await Watched(False).start()
    quote = run.watch.quote(run.conversation, model_id=MODEL.id, level="high")
    assert str(quote) == f"the effort changed: {SHOWN}"
    assert quote and quote.needs_consent

    await run.watch(run.turn(thinking_level="high"))

    assert (run.told, run.asked, run.losses_expected) == ([], [], 1)
    run.now_s += 720
    assert run.watch.quote(run.conversation, model_id=MODEL.id, level="low") is None


async def test_older_messages_left_out_are_told_and_a_rewind_is_not() -> None:
    """What is kept behind a cut is read anew; a shorter history is read from the cache."""
    run = await Watched(None).start()
    run.conversation.add_user(UserMessage.of(LONG))
    run.conversation.add_reply(says("ok", usage=CACHED))
    run.conversation.complete()
    run.conversation.begin(UserMessage.of("and now"), model=MODEL)
    await run.watch(run.turn())
    assert run.told == []

    history = history_of(run.conversation)
    run.conversation.trim(history.cut_id(history.cuts()[0]), removed_messages=1)
    await run.watch(run.turn())

    assert [text.partition(":")[0] for text in run.told] == [
        "older messages were left out or came back"
    ]


async def test_images_that_no_longer_fit_are_told_before_with_what_follows_them() -> None:
    """What precedes the first image that goes stays cached, and is not counted."""
    it = Watched()
    await it.start()
    it.conversation.add_reply(says("y" * 34_400, usage=CACHED))
    await it.watch(it.turn())
    it.unsent = [0, 0, 1]
    await it.watch(it.turn())
    await it.watch(it.turn())

    assert it.told == [
        "a request has no room for some earlier images any more: about 7,001 tokens not read from"
        " the cache ($0.0175)"
    ]


@pytest.mark.parametrize(
    ("passed_s", "tokens"), [(3_600.0, " 40,016 "), (3_600.5, " 50,016 ")], ids=["at", "beyond"]
)
async def test_an_hour_keeps_tools_and_the_stable_block_cached(
    passed_s: float, tokens: str
) -> None:
    """They are cached for an hour, the rest for five minutes: after it all is read anew."""
    run = Watched()
    run.system = ["s" * 40_000]
    await run.start()
    run.now_s += passed_s

    await run.watch(run.turn())

    [told] = run.told
    assert tokens in told


@each_row(
    ("count", "shown"),
    [(4, "+a, +b, +c, +d"), (5, "+a, +b, +c, 2 more")],
)
async def test_many_changed_tools_are_counted(count: int, shown: str) -> None:
    """A server with a hundred tools must not fill the screen."""
    others = [tool(name, returns("")) for name in "abcde"[:count]]
    run = Contributing([in_turn(nothing, offers(*others))], says("one"), says("two"))
    await run.prompt(LONG)
    await run.prompt()

    [told] = run.notices()
    assert told.startswith(f"the tools changed ({shown}): ")


async def test_nobody_is_asked_without_a_limit_of_the_question() -> None:
    """`reread_question_usd` = 0: told, not asked."""
    run = await Watched(answer=False).start()
    asked: list[Reread] = []

    async def consent(reread: Reread) -> bool:
        asked.append(reread)
        return False

    watch = PrefixWatch(two_dollars_a_million, consent=consent, clock=lambda: run.now_s)
    await watch(run.turn(model=Model("other", api="scripted")))

    assert len(run.told) == 1
    assert asked == []
