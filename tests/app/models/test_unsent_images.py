"""The images that a request leaves out, counted for each turn of a growing conversation."""

from types import SimpleNamespace
from typing import Any, cast

from agent_cli.app.models import unsent_images
from agent_cli.contracts.messages import CustomMessage, Message, UserMessage
from agent_cli.contracts.timeline import Block, Json
from agent_cli.providers.anthropic import sent_images
from agent_cli.providers.anthropic.models import model_by_id

MODEL = "claude-sonnet-5-5"
SOURCE: Json = {"type": "base64", "media_type": "image/png", "data": "aGk="}
IMAGE: Block = {"type": "image", "source": SOURCE}
IMAGES = (IMAGE,) * 400


def test_images_are_counted_in_new_messages_too() -> None:
    """Messages that were looked at before are not looked at again."""
    provider = SimpleNamespace(speaks_messages=True, compat=False)
    startup = SimpleNamespace(loaded=SimpleNamespace(settings=SimpleNamespace(provider=provider)))
    unsent = unsent_images(cast("Any", startup))
    texts: list[Message] = [UserMessage.of("hi"), CustomMessage("note", {}, 0)]
    images: list[Message] = [UserMessage.of("look", IMAGES), UserMessage.of("again", IMAGES)]

    def expected(messages: list[Message]) -> list[int]:
        contents = [() if isinstance(each, CustomMessage) else each.content for each in messages]
        window = model_by_id(MODEL).context_window
        return [*sent_images.unsent_images(contents, compat=False, context_window=window)]

    for history in (texts, [*texts, *images], texts, [*texts, *images, *texts], images):
        assert [*unsent(history, MODEL)] == expected(history)
    assert sum(expected([*texts, *images])) > 0
