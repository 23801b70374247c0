"""Another model answers where the first is overloaded or declines, and everybody is told."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import Model, ModelRequest, Reply, Retrying, TextDelta
from agent_cli.contracts.timeline import Block, Usage
from agent_cli.core.conversation import Conversation
from agent_cli.policies.model_fallback import FallbackModels, ModelFallback
from tests.e2e.program import agent_cli
from tests.fakes import MODEL, ScriptedModel, Step, notices, says
from tests.messages_api import ReceivedRequest, reply, serve_in_thread
from tests.messages_api.script import Answer, error
from tests.policies.histories import Listener, turn_of
from tests.tables import each_row

SECOND, THIRD = Model("second", api="scripted"), Model("third", api="scripted")
OVERLOADED = ModelError("API overloaded (529); try again later", trouble="overloaded")
REQUEST = ModelRequest(model=MODEL, messages=(UserMessage.of("x" * 4_000),), thinking_level="low")


class Fallback:
    """A fallback on two models, of which the second takes no level, and its script."""

    def __init__(self, *script: Step) -> None:
        self.model = ScriptedModel(*script)
        self.listener = Listener()
        self.now_s = 0.0
        self.answered: list[object] = []
        self.fallback = ModelFallback(
            self.model,
            FallbackModels(
                models=(SECOND, THIRD),
                level_for=lambda model, level: level if model == THIRD else None,
            ),
            price=lambda _id, usage: usage.cache_write_5m_tokens,
            emit=self.listener,
            on_answer=lambda *answered: self.answered.append(answered),
            clock=lambda: self.now_s,
        )

    async def ask(self, request: ModelRequest = REQUEST) -> list[object]:
        """Return the events of a reply."""
        return [event async for event in self.fallback.stream(request)]

    def next_model(self) -> tuple[str, object]:
        """Return the model and the level of the next turn."""
        conversation = Conversation()
        conversation.begin(UserMessage.of("next"), model=MODEL)
        turn = turn_of(conversation, self.listener)
        turn.config = replace(turn.config, thinking_level="low")
        self.fallback(turn)
        return turn.model.id, turn.config.thinking_level

    @property
    def told(self) -> list[str]:
        return notices(self.listener.events)


async def test_overload_goes_to_the_next_model_for_five_minutes() -> None:
    """Each fallback is told with its price before; a model without the level gets its default."""
    it = Fallback([TextDelta(0, "half"), OVERLOADED], OVERLOADED, says("done"))
    events = await it.ask()

    assert [(each.model.id, each.thinking_level) for each in it.model.requests] == [
        (MODEL.id, "low"),
        ("second", None),
        ("third", "low"),
    ]
    restart = Retrying(1, 1, 0.0, "API overloaded (529)", restarted=True)
    assert [event for event in events if isinstance(event, Retrying)] == [restart]
    assert it.told == [
        f"{MODEL.id} is overloaded, second answers for 5 minutes: about 1,000 tokens not read from"
        " the cache ($0.001)",
        "second is overloaded, third answers for 5 minutes: about 1,000 tokens not read from the"
        " cache ($0.001)",
    ]
    assert it.answered == [("third", "low")]
    assert it.next_model() == ("third", "low")
    it.now_s = 299.5
    assert it.next_model() == ("third", "low")
    it.now_s = 300
    assert it.next_model() == (MODEL.id, "low")


async def test_other_failures_and_the_last_overload_stay_errors() -> None:
    """A key that is refused is refused for every model."""
    for errors in ([ModelError("no key", trouble="auth")], [OVERLOADED] * 3):
        it = Fallback(*errors)
        try:
            await it.ask()
        except ModelError as failure:
            assert failure is errors[-1]
        assert len(it.model.requests) == len(errors)
        assert it.next_model() == (MODEL.id, "low")


async def test_a_reply_of_another_model_than_asked_is_told_with_its_cost() -> None:
    """The server fell back by itself: the model declined."""
    mark: Block = {"type": "fallback", "trigger": {"type": "refusal", "category": "cyber"}}
    usage = Usage(cost_microdollars=20_000)
    it = Fallback(Reply("m", "second", (mark,), "end_turn", usage, declined=MODEL.id))
    await it.ask()

    assert it.told == [
        f"{MODEL.id} declined to answer (cyber), second answered; the reply cost $0.02"
    ]
    assert it.next_model() == (MODEL.id, "low")


async def test_what_is_asked_beside_the_turns_falls_back_too() -> None:
    """A summary that failed while the model was overloaded cut the history without one."""
    it, other = Fallback(says("turn")), ScriptedModel(OVERLOADED, says("summary"), says("aside"))
    beside = it.fallback.beside(other)
    for _ in range(2):
        assert [event async for event in beside(REQUEST)]

    await it.ask()

    assert [each.model.id for each in other.requests] == [MODEL.id, "second", "second"]
    assert [each.model.id for each in it.model.requests] == ["second"]
    assert len(it.told) == 1
    assert it.answered == [("second", None)]  # by the turn alone
    it.now_s = 301
    assert it.next_model() == (MODEL.id, "low")


@each_row(
    ("make", "named"),
    [(FallbackModels, ()), (partial(FallbackModels, by_server=True), (SECOND,))],
)
async def test_server_is_told_of_other_models_only_where_it_knows_what_to_do_with_them(
    make: Callable[..., FallbackModels], named: tuple[Model, ...]
) -> None:
    """Another server would refuse the field, and with it every request."""
    model = ScriptedModel(says("Hi."))
    others = make(models=(SECOND,), level_for=lambda _model, level: level)
    fallback = ModelFallback(model, others, price=lambda *_used: None, emit=print)

    assert [event async for event in fallback.stream(REQUEST)]

    assert [request.fallbacks for request in model.requests] == [named]


async def test_model_that_falls_in_may_be_overloaded_later() -> None:
    """Each is asked again five minutes after it failed."""
    it = Fallback(OVERLOADED, says("one"), OVERLOADED, says("two"), says("three"))
    await it.ask()
    it.now_s = 200
    await it.ask()
    assert it.next_model() == ("third", "low")

    it.now_s = 301
    assert it.next_model() == (MODEL.id, "low")


def _busy_sonnet(request: ReceivedRequest) -> Answer:
    if request.body["model"] == "claude-sonnet-5-5":
        return error(529, "overloaded_error", "Overloaded")
    asks_for_notes = "replaced by notes" in str(request.body)
    text = "Here I am." if asks_for_notes else "Here I am, with many words."
    return reply(text, usage={"input_tokens": 1_000, "output_tokens": 100})


def test_overloaded_model_is_replaced_for_the_session_and_the_price_is_right() -> None:
    """The next prompt goes to the other model at once: no wait, no second notice."""
    with serve_in_thread(answer=_busy_sonnet) as api:
        run = agent_cli(
            *("--model-fallback", "high"),
            api=api,
            script="one\ntwo\n/usage\n",
            AGENT_CLI_RETRY__MAX="1",
            AGENT_CLI_RETRY__OTHER_BASE_S="0",
        )

    assert run.code == 0, run.stderr
    assert api.refusals == []
    models = [request.body["model"] for request in api.requests]
    assert models == ["claude-sonnet-5-5"] * 2 + ["claude-opus-5-5"] * 2
    assert [each["model"] for each in api.requests[0].body["fallbacks"]] == ["claude-opus-5-5"]
    assert all("fallbacks" not in request.body for request in api.requests[2:])
    shown = run.stdout + run.stderr
    assert shown.count("claude-sonnet-5-5 is overloaded, claude-opus-5-5 answers") == 1
    assert "$0.012" in shown  # 4 and 20 dollars a million, twice


def test_side_question_and_summary_go_to_the_model_that_answers() -> None:
    """Each waited for the retries of the overloaded model, and failed."""
    with serve_in_thread(answer=_busy_sonnet) as api:
        run = agent_cli(
            *("--model-fallback", "high"),
            api=api,
            script="one\ntwo\nthree\nfour\nfive\n/btw why?\n/compact\n",
            AGENT_CLI_RETRY__MAX="0",
        )
    # What one model signed, another does not take.
    with serve_in_thread(reply("and on")) as later:
        again = agent_cli("-c", api=later, script="six\n")

    assert (run.code, again.code) == (0, 0), run.stderr
    assert "compacted" in run.stdout + run.stderr
    assert (api.refusals, later.refusals) == ([], [])
    models = [request.body["model"] for request in api.requests]
    assert models == ["claude-sonnet-5-5", *["claude-opus-5-5"] * 7]
    assert "neither question nor answer" in run.stdout + run.stderr


def test_the_server_asks_another_model_when_one_declines() -> None:
    """The bill has both models; the reply goes back with its mark, and without the old call."""
    usage = {"input_tokens": 1_000, "output_tokens": 100, "cache_read_input_tokens": 0}
    iterations = [
        {"type": "message", "model": "claude-sonnet-5-5", **usage},
        {"type": "fallback_message", "model": "claude-opus-5-5", **usage},
    ]
    mark = {
        "type": "fallback",
        "from": {"model": "claude-sonnet-5-5"},
        "to": {"model": "claude-opus-5-5"},
        "trigger": {"type": "refusal", "category": "cyber"},
    }
    call = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "touch made"}}
    with serve_in_thread(
        reply(
            "Let me",
            call,
            mark,
            "Done.",
            stop_reason="end_turn",
            usage={**usage, "iterations": iterations},
        ),
        reply("And on.", usage=usage),
    ) as api:
        run = agent_cli(
            *("--model-fallback", "high", "--permission-mode", "yolo", "--max-cost", "5"),
            api=api,
            script="one\ntwo\n",
        )
        again = agent_cli("-c", api=api, script="/usage\n")

    assert run.code == 0, run.stderr
    assert api.refusals == []
    sent = api.requests[1].body["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["text", "fallback", "text"]
    # 2 and 10 dollars a million for the one, 4 and 20 for the other.
    told = "claude-sonnet-5-5 declined to answer (cyber), claude-opus-5-5 answered"
    assert f"{told}; the reply cost $0.009" in run.stdout + run.stderr
    assert "cached tokens were read anew" not in run.stdout + run.stderr
    # In a later process too, each model has the cost of its own tokens.
    rows = (again.stdout + again.stderr).splitlines()
    [opus] = [row for row in rows if row.startswith("  claude-opus-5-5:")]
    [sonnet] = [row for row in rows if row.startswith("  claude-sonnet-5-5:")]
    assert opus.endswith("output 100 tokens · $0.0060")
    assert sonnet.endswith("output 200 tokens · $0.0060")
    assert not [row for row in rows if "including" in row]
