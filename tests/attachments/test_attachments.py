"""Images sent with a prompt."""

import io
from pathlib import Path

import pytest
from PIL import Image as Pillow

from agent_cli.attachments.attachments import Attachments
from agent_cli.attachments.images import read_image
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import text_block
from agent_cli.core.api_messages import to_api
from agent_cli.core.conversation import Conversation
from agent_cli.policies.estimate import USUAL_IMAGE_TOKENS, estimate_tokens


@pytest.fixture(autouse=True)
def picture() -> Path:
    """A picture in the working directory."""
    buffer = io.BytesIO()
    Pillow.new("RGB", (8, 6)).save(buffer, "PNG")
    Path("my pic.png").write_bytes(buffer.getvalue())
    path = Path("pic.png")
    path.write_bytes(buffer.getvalue())
    return path


async def test_image_named_in_a_prompt_is_attached(picture: Path) -> None:
    """S6: it precedes the text, where a mark replaces its name; other names stay text."""
    message = await Attachments(Path.cwd()).message("what is @pic.png, @none.png and me@pic.png?")

    text = "what is [image 1: pic.png 8×6], @none.png and me@pic.png?"
    assert message.content == (read_image(picture).block, text_block(text))


async def test_quoted_names_with_spaces_and_absolute_paths_are_attached(picture: Path) -> None:
    """Completion inserts them like this; images keep the order of the text."""
    message = await Attachments(Path.cwd()).message(f'@"my pic.png" or @{picture.absolute()}')

    assert message.text == "[image 1: my pic.png 8×6] or [image 2: pic.png 8×6]"
    assert [block["type"] for block in message.content] == ["image", "image", "text"]


async def test_prompt_without_images_is_sent_unchanged() -> None:
    """Nothing is added and nothing is read; `@~name` need not be a user."""
    message = await Attachments(Path.cwd()).message("look at @src/app.py, @~nobody/app.py")

    assert message.content == (text_block("look at @src/app.py, @~nobody/app.py"),)


async def test_image_is_attached_to_the_text_that_holds_its_mark(picture: Path) -> None:
    """The text may be queued, taken back and sent later; a deleted mark drops its image."""
    attachments = Attachments(Path.cwd())
    mark = attachments.add_file("pic.png")
    other = attachments.add(read_image(picture), "a[b]\n\x1b.png")

    assert mark == "[image 1: pic.png 8×6]"
    assert other == r"[image 2: a(b) \x1b.png 8×6]"
    message = await attachments.attached(UserMessage.of(f"only {mark}"))
    assert [block["type"] for block in message.content] == ["image", "text"]
    nothing = await attachments.attached(UserMessage.of("none"))
    assert nothing.content == (text_block("none"),)


async def test_an_image_that_cannot_be_sent_is_an_error_not_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the model would be asked about a picture it never got."""
    Path("pic.png").write_bytes(b"\x89PNG\r\n\x1a\n")

    with pytest.raises(UsageError, match=r"pic\.png is damaged"):
        await Attachments(Path.cwd()).message("what is @pic.png")


async def test_images_too_large_together_are_an_error_before_they_are_sent() -> None:
    """The API refuses the request, and with it every later one of the session."""
    start = Path("pic.png").read_bytes()
    for number in range(5):
        Path(f"{number}.png").write_bytes(start + bytes(3_900_000))
    four, five = (" ".join(f"@{n}.png" for n in range(count)) for count in (4, 5))

    assert len((await Attachments(Path.cwd()).message(four)).content) == 5
    with pytest.raises(UsageError, match=r"26 MB together, .* room for 24 MB .*; attach fewer"):
        await Attachments(Path.cwd()).message(five)


async def test_images_of_a_user_message_are_counted_and_sent(picture: Path) -> None:
    """S6: both the context estimate and the request include them."""
    conversation = Conversation()
    conversation.begin(await Attachments(Path.cwd()).message("@pic.png"))

    assert USUAL_IMAGE_TOKENS <= estimate_tokens(conversation.context()) < USUAL_IMAGE_TOKENS + 20
    (sent,) = to_api([m for m in conversation.context() if isinstance(m, UserMessage)])
    assert sent["content"] == [
        read_image(picture).block,
        text_block("[image 1: pic.png 8×6]"),
    ]
