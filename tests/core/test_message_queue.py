"""A queue of messages: in order, by its mode, from any thread, in any event loop."""

import asyncio
import gc
import threading
import weakref
from typing import Literal

import pytest

from agent_cli.contracts.authors import PROGRAM
from agent_cli.contracts.messages import UserMessage
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.message_queue import (
    MessageQueue,
    OwnOutput,
    keep_own_output,
    keep_unsent,
    own_outputs,
    told_of_outputs,
    unsent,
    with_outputs,
)
from agent_cli.system.batches import unwind
from tests.fakes import LIMIT_S, MODEL, ScriptedModel, says
from tests.tables import each_row

ONE, TWO, THREE = (UserMessage.of(text) for text in ("one", "two", "three"))


def filled(mode: Literal["one_at_a_time", "all"]) -> MessageQueue:
    queue = MessageQueue(mode)
    for message in (ONE, TWO, THREE):
        queue.put(message)
    return queue


@each_row(
    ("mode", "batches"),
    [
        ("one_at_a_time", [[ONE], [TWO], [THREE], []]),
        ("all", [[ONE, TWO, THREE], [], [], []]),
    ],
)
def test_messages_are_taken_in_order_one_at_a_time_or_all_at_once(
    mode: Literal["one_at_a_time", "all"], batches: list[list[UserMessage]]
) -> None:
    """S0-36: the first message queued is the first one taken."""
    queue = filled(mode)

    assert [queue.take() for _ in range(4)] == batches
    assert not queue


def test_undelivered_messages_return_to_the_front_of_the_queue_in_order() -> None:
    """S0-48: a run may end between taking and delivering."""
    queue = filled("one_at_a_time")
    queue.take()
    queue.take()
    queue.delivered(ONE)

    queue.take_back()

    assert queue.clear() == [TWO, THREE]
    queue.take_back()
    assert queue.clear() == []


def test_undelivered_message_of_another_source_is_put_into_the_queue() -> None:
    """S0-22: a caller's own function does not return the message a second time."""
    queue = MessageQueue("one_at_a_time")
    queue.lend([ONE, TWO])
    queue.delivered(ONE)

    queue.take_back()

    assert queue.take() == [TWO]


def test_several_undelivered_messages_come_back_in_their_order_before_the_others() -> None:
    queue = filled("one_at_a_time")
    assert [*queue.take(), *queue.take()] == [ONE, TWO]

    queue.take_back()
    queue.take_back()

    queue.set_mode("all")
    assert queue.take() == [ONE, TWO, THREE]


def test_clearing_the_queue_returns_its_messages() -> None:
    """S0-61: the queue is empty afterwards."""
    queue = filled("all")

    assert (queue.clear(), bool(queue), queue.take()) == ([ONE, TWO, THREE], False, [])


@each_row("from_thread", [False, True])
def test_wait_ends_with_the_next_message_in_any_event_loop(*, from_thread: bool) -> None:
    """S0-59: a second `asyncio.run` used to meet an event of the first one's loop."""
    queue = MessageQueue("all")
    queue.put(ONE)  # already there: does not count

    async def wait() -> bool:
        waiting = asyncio.ensure_future(queue.wait())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        early = waiting.done()
        if from_thread:
            thread = threading.Thread(target=queue.put, args=(TWO,))
            thread.start()
        else:
            queue.put(TWO)
        await asyncio.wait_for(waiting, LIMIT_S)
        return early

    assert [asyncio.run(wait()) for _ in range(2)] == [False, False]


def test_message_can_be_queued_after_an_abandoned_wait() -> None:
    """The event loop of the wait is closed by then."""
    queue = MessageQueue("all")

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.wait(), 0.001)

    asyncio.run(give_up())
    queue.put(ONE)

    assert queue.take() == [ONE]


def test_queue_keeps_nothing_of_a_wait_that_has_ended() -> None:
    """A session waits once in each turn, and would remember every one of them."""
    queue = MessageQueue("all")

    async def give_up() -> weakref.ref[asyncio.AbstractEventLoop]:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.wait(), 0.001)
        return weakref.ref(asyncio.get_running_loop())

    loop = asyncio.run(give_up())
    gc.collect()

    assert loop() is None


def test_message_can_be_queued_while_a_wait_stands_in_a_closed_event_loop() -> None:
    """`steer()` raised "Event loop is closed" until the run that waited was ended."""
    queue = MessageQueue("all")
    loop = asyncio.new_event_loop()
    wait = queue.wait()
    task = loop.create_task(wait)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()

    queue.put(ONE)

    assert queue.take() == [ONE]
    unwind(wait)
    del task


def test_delivering_one_copy_of_a_message_queued_twice_keeps_the_other() -> None:
    """S0-43: an abort between the two must not lose the second one."""
    queue, message = MessageQueue("all"), UserMessage.of("go on")
    queue.put(message)
    queue.put(message)

    taken = queue.take()
    queue.delivered(taken[0])
    queue.take_back()

    assert taken == [message, message]
    assert queue.take() == [message]


def test_record_holds_the_messages_that_wait_now() -> None:
    """One entry for each change."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))

    for texts in (["a"], ["a"], ["b", "a"]):
        keep_unsent(conversation, texts)

    assert unsent(conversation) == ["b", "a"]
    assert len(conversation.prompts[-1].output) == 2
    keep_unsent(conversation, [])
    assert unsent(conversation) == []


def test_message_that_was_delivered_right_before_a_kill_is_not_unsent() -> None:
    """Its delivery is recorded first; a second message with this text still waits."""
    conversation = Conversation()
    conversation.begin(UserMessage.of("a"))
    keep_unsent(conversation, ["a", "b", "a"])

    conversation.add_user(UserMessage.of("a"))

    assert unsent(conversation) == ["b", "a"]


def test_nothing_is_recorded_before_the_first_prompt() -> None:
    """A session in which nothing was said is not kept."""
    conversation = Conversation()

    keep_unsent(conversation, ["a"])

    assert conversation.prompts == []


LS = OwnOutput("ls", "I ran this command:\n$ ls\na\n")
DATE = OwnOutput("date", "I ran this command:\n$ date\nnow\n")


def _begun() -> Conversation:
    conversation = Conversation()
    conversation.begin(UserMessage.of("hello"))
    conversation.complete()
    return conversation


async def test_outputs_go_with_the_next_prompt_and_with_no_later_one() -> None:
    """Whoever sends it: `-p` after `-c`, an editor, or the prompt of a terminal."""
    options = LoopConfig(stream_fn=ScriptedModel(says("fine"), says("fine")), model=MODEL)
    agent = Agent(options, conversation=_begun())
    assert keep_own_output(agent.conversation, LS)
    assert keep_own_output(agent.conversation, DATE)
    assert keep_own_output(agent.conversation, DATE)

    await agent.prompt("why?")
    await agent.prompt("and now?")

    sent = [each.text for each in agent.conversation.messages() if isinstance(each, UserMessage)]
    assert sent == ["hello", f"{LS.text}\n{DATE.text}\n{DATE.text}\nwhy?", "and now?"]
    assert own_outputs(agent.conversation) == []


def test_output_waits_on_behind_messages_that_did_not_take_it() -> None:
    """A message typed during a run is delivered as it is, and the program's own are no message."""
    conversation = _begun()
    keep_own_output(conversation, LS)

    conversation.add_user(UserMessage.of("ls"))
    program = UserMessage.of("a job has ended", author=PROGRAM)

    assert with_outputs(conversation, program) is program
    assert own_outputs(conversation) == [LS]


def test_rewind_to_before_a_message_lets_what_it_took_wait_again() -> None:
    """The model knows it no longer."""
    conversation = _begun()
    keep_own_output(conversation, LS)
    message = with_outputs(conversation, UserMessage.of("why?"))
    assert isinstance(message, UserMessage)
    conversation.begin(message)
    assert own_outputs(conversation) == []

    assert own_outputs(Conversation(conversation.prompts[:1])) == [LS]


def test_no_output_is_recorded_before_the_first_prompt() -> None:
    """A session in which nothing was said is not kept."""
    conversation = Conversation()

    assert not keep_own_output(conversation, LS)
    assert conversation.prompts == []


def test_sentence_about_outputs_names_their_commands() -> None:
    """It is shown when the session is continued, and when it is left."""
    conversation = _begun()
    assert told_of_outputs(conversation) == ""
    for name in ("a", "b\n\x1b[31m", "c", "d", "e"):
        keep_own_output(conversation, OwnOutput(name, f"$ {name}\n"))

    told = told_of_outputs(conversation)

    assert told.startswith("your next message takes along the output of `a`, `b ")
    assert told.endswith("`c` and 2 more")
    assert "\x1b" not in told
    assert told_of_outputs(conversation, left=True).endswith("waits in the session you left")
