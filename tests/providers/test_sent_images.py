"""Images in the history of one request."""

import pytest

from agent_cli.contracts.media_files import document_block, image_block
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
    holds_media,
    media,
    media_data,
    number_max,
    unsent_images,
    without_large_among_many,
    without_oldest,
)
from tests.messages_api import FakeMessagesApi, reply
from tests.providers.asking import asker, request

SMALL = 200_000
MANY = 1_000


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


@pytest.mark.parametrize(("model", "limit"), [("claude-haiku-4-5", 100), ("claude-opus-5-5", 600)])
async def test_no_more_images_are_sent_than_a_request_may_have(model: str, limit: int) -> None:
    """The newest was left out, then all: the model saw no screenshot any more."""
    async with FakeMessagesApi(reply("ok"), reply("ok")) as api, asker(api) as it:
        for count in (limit, limit + 1):
            assert (await it.ask(request(*history(count), model=model))).text == "ok"

    assert api.refusals == []
    sent = [
        [len([*media(message)]) for message in got.body["messages"] if holds_media(message)]
        for got in api.requests
    ]
    assert [len(each) for each in sent] == [limit - 1, limit // 2]  # one is too large among many
    last = api.requests[1].body["messages"][-1]
    assert [media_data(each) for each in media(last)] == [media_data(screenshot(700))]


def test_pages_of_documents_count_as_images() -> None:
    """Six papers of 20 pages each, and a limit of 100."""
    paper = document_block(b"%PDF-1.7 paper", "paper.pdf", pages=20)
    unknown = {**paper, "title": "paper.pdf"}

    for block in (paper, unknown):
        messages = to_api([UserMessage.of("read", [block] * 6)])

        assert len([*media(without_oldest(messages, 10**9, 100)[0])]) == 2


def test_oldest_images_are_left_out_where_all_do_not_fit() -> None:
    """The space freed lasts for several images, so that each changes no earlier part."""
    message = to_api([UserMessage.of("", [screenshot(700)])])[0]
    (data,) = map(media_data, media(message))
    room = 6 * len(data)
    earlier: list[Block] = []
    changes = 0
    for number in range(1, 20):
        sent = without_oldest([message] * number, room, MANY)
        kept = sum(1 for each in sent for _ in media(each))
        assert min(number, 3) <= kept <= 6
        assert sent[-1] == message
        changes += sent[: len(earlier)] != earlier
        earlier = sent
    assert changes <= 4
    assert [*media(without_oldest([message], len(data) - 1, MANY)[0])] == []


@pytest.mark.parametrize("room", [1, 6, 24])
def test_images_counted_as_unsent_are_those_that_the_request_leaves_out(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of leaving them out is announced before, so both must agree."""
    data = media_data(screenshot(700))
    monkeypatch.setattr(sent_images, "REQUEST_CHARS_MAX", room * len(data))
    for number in (1, 3, 20, 21, 24, 40, 101):
        messages = history(number)
        before = to_api(messages)
        after = without_large_among_many(
            without_oldest(before, room * len(data), number_max(SMALL))
        )
        counts = [[sum(1 for _ in media(each)) for each in sent] for sent in (before, after)]
        gone = tuple(one - other for one, other in zip(*counts, strict=True))

        contents = [each.content for each in messages]
        assert unsent_images(contents, compat=False, context_window=SMALL) == gone


def test_size_of_a_photo_behind_its_preview_is_found() -> None:
    """The header of a JPEG file may hold a preview and a colour profile."""
    profile = b"\xff\xe2\xff\xf0" + bytes(0xFFF0 - 2)
    frame = b"\xff\xc0\x00\x11\x08" + (3_000).to_bytes(2) + (800).to_bytes(2) + bytes(10)
    photos = [
        UserMessage.of("", [image_block(b"\xff\xd8" + profile * count + frame, "image/jpeg")])
        for count in (0, 4, 5)  # 0, 256 and 320 KiB
    ]

    sent = without_large_among_many(to_api([*photos, *(photos[:1] * 18)]))

    content = str(sent[0]["content"])
    assert content.count("[An image of 800×3000 pixels was left out") == 20
    assert content.count("image/jpeg") == 1


PAPER = document_block(b"%PDF-1.7 paper", "paper.pdf", pages=3)
READ_PAPER: tuple[LlmMessage, ...] = (
    UserMessage.of("read it"),
    AssistantMessage(({"type": "tool_use", "id": "t1", "name": "read", "input": {}},), "tool_use"),
    ToolResultMessage("t1", "read", (text_block("[paper.pdf]"), PAPER)),
)


async def test_a_pdf_is_sent_as_a_document() -> None:
    async with FakeMessagesApi(reply("ok")) as api, asker(api) as it:
        assert (await it.ask(request(*READ_PAPER))).text == "ok"

    assert api.refusals == []
    assert [*media(api.requests[0].body["messages"][2])] == [PAPER]


async def test_a_server_without_documents_reads_a_note_in_place_of_a_pdf() -> None:
    """A session that is continued with another server must not end with its first request."""
    async with FakeMessagesApi(reply("ok")) as api, asker(api, compat=True) as it:
        assert (await it.ask(request(*READ_PAPER))).text == "ok"

    _, note = api.requests[0].body["messages"][2]["content"][0]["content"]
    assert note == text_block(
        "[The document paper.pdf (3 pages) was left out here: this server takes no PDF. read with"
        " pages shows the text of a PDF.]"
    )


def test_old_pdfs_are_left_out_like_old_images() -> None:
    room = 4 * len(media_data(PAPER))
    answer = AssistantMessage((text_block("ok"),))
    messages = [each for _ in range(6) for each in (UserMessage.of("", [PAPER]), answer)]

    sent = without_oldest(to_api(messages), room, MANY)

    assert [len([*media(each)]) for each in sent[::2]] == [0, 0, 0, 1, 1, 1]
    assert "newer ones fill the space" in str(sent[0])


def test_pdfs_do_not_count_as_images_among_many() -> None:
    """Twenty screenshots and a PDF: the API looks at the sides of images only."""
    messages = [*history(20), UserMessage.of("and", [PAPER])]

    sent = without_large_among_many(to_api(messages))

    assert "left out" not in str(sent)
    contents = [each.content for each in messages]
    unsent = unsent_images(contents, compat=False, context_window=SMALL)
    assert unsent == (0,) * len(messages)
    assert sum(unsent_images(contents, compat=True, context_window=SMALL)) == 1
