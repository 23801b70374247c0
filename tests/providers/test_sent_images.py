"""Images in the history of one request."""

from agent_cli.contracts.image_files import image_block
from agent_cli.contracts.messages import (
    AssistantMessage,
    LlmMessage,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.timeline import Block, text_block
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
