"""Images in the history of one request."""

import pytest

from agent_cli.contracts.image_files import image_block
from agent_cli.contracts.messages import (
    AssistantMessage,
    LlmMessage,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.timeline import Block, text_block
from agent_cli.core.api_messages import to_api
from agent_cli.providers.anthropic import sent_images
from agent_cli.providers.anthropic.sent_images import (
    images,
    unsent_images,
    without_large_among_many,
    without_oldest,
)
from tests.messages_api import FakeMessagesApi, reply
from tests.providers.asking import asker, request


def screenshot(height: int) -> Block:
    """Return the beginning of a PNG image that is 1280 pixels wide."""
    sides = (1280).to_bytes(4) + height.to_bytes(4)
    return image_block(b"\x89PNG\r\n\x1a\n" + bytes(4) + b"IHDR" + sides, "image/png")


def history(count: int) -> list[LlmMessage]:
    """Return a session with *count* screenshots, a tall one among them."""
    messages: list[LlmMessage] = [UserMessage.of("test the site", [screenshot(700)])]
    for number in range(1, count):
        call: Block = {"type": "tool_use", "id": f"t{number}", "name": "shoot", "input": {}}
        result = (screenshot(5_000 if number == 3 else 700),)
        messages += [
            AssistantMessage((call,), "tool_use"),
            ToolResultMessage(f"t{number}", "shoot", result),
        ]
    return messages


async def test_large_image_among_many_is_replaced_by_a_note() -> None:
    """The twenty-first screenshot made every later request of the session fail."""
    async with FakeMessagesApi(reply("ok"), reply("ok")) as api, asker(api) as it:
        for count in (20, 21):
            assert (await it.ask(request(*history(count)))).text == "ok"

    assert api.refusals == []
    few, many = (got.body["messages"][6]["content"][0]["content"] for got in api.requests)
    assert few == [screenshot(5_000)]
    assert many == [
        text_block(
            "[An image of 1280×5000 pixels was left out here: among more than 20 images, the API"
            " accepts at most 2000 pixels a side.]"
        )
    ]


def test_oldest_images_are_left_out_where_all_do_not_fit() -> None:
    """The space freed lasts for several images, so that each changes no earlier part."""
    message = to_api([UserMessage.of("", [screenshot(700)])])[0]
    (data,) = images(message)
    room = 6 * len(data)
    earlier: list[Block] = []
    changes = 0
    for number in range(1, 20):
        sent = without_oldest([message] * number, room)
        kept = sum(1 for each in sent for _ in images(each))
        assert min(number, 3) <= kept <= 6
        assert sent[-1] == message
        changes += sent[: len(earlier)] != earlier
        earlier = sent
    assert changes <= 4
    assert [*images(without_oldest([message], len(data) - 1)[0])] == []


@pytest.mark.parametrize("room", [1, 6, 24])
def test_images_counted_as_unsent_are_those_that_the_request_leaves_out(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of leaving them out is announced before, so both must agree."""
    (data,) = images(screenshot(700))
    monkeypatch.setattr(sent_images, "REQUEST_CHARS_MAX", room * len(data))
    for number in (1, 3, 20, 21, 24, 40):
        messages = history(number)
        before = to_api(messages)
        after = without_large_among_many(without_oldest(before, room * len(data)))
        counts = [[sum(1 for _ in images(each)) for each in sent] for sent in (before, after)]
        gone = tuple(one - other for one, other in zip(*counts, strict=True))

        assert unsent_images([each.content for each in messages], compat=False) == gone


def test_size_of_a_photo_behind_its_preview_is_found() -> None:
    """The header of a JPEG file may hold a preview and a colour profile."""
    profile = b"\xff\xe2\xff\xf0" + bytes(0xFFF0 - 2)
    frame = b"\xff\xc0\x00\x11\x08" + (3_000).to_bytes(2) + (800).to_bytes(2) + bytes(10)
    photos = [
        UserMessage.of("", [image_block(b"\xff\xd8" + profile * count + frame, "image/jpeg")])
        for count in (0, 2, 9)
    ]

    sent = without_large_among_many(to_api([*photos, *(photos[:1] * 18)]))

    content = str(sent[0]["content"])
    assert content.count("[An image of 800×3000 pixels was left out") == 20
    assert content.count("image/jpeg") == 1
