"""A scripted model, so that the examples run offline and without a key.

A `stream_fn` is a function from a request to an asynchronous iterator of stream events. Leave it
out and give `registry=` a provider instead, and the same programs talk to a real model.
"""

from collections.abc import AsyncIterator, Callable

from agent_cli import Json, Model, ModelRequest, Reply, ReplyEnd, ReplyStart, StreamEvent, TextDelta

MODEL = Model("scripted-model")


def says(text: str) -> Reply:
    """Return a reply of text."""
    return Reply("msg_1", MODEL.id, ({"type": "text", "text": text},), "end_turn")


def calls(*uses: tuple[str, Json]) -> Reply:
    """Return a reply that asks for tools, each a name and its input."""
    content = tuple(
        {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given}
        for number, (name, given) in enumerate(uses, start=1)
    )
    return Reply("msg_1", MODEL.id, content, "tool_use")


def scripted(*replies: Reply) -> Callable[[ModelRequest], AsyncIterator[StreamEvent]]:
    """Return a `stream_fn` that plays *replies*, one a call, its text word by word."""
    waiting = list(replies)

    async def stream(_request: ModelRequest) -> AsyncIterator[StreamEvent]:
        reply = waiting.pop(0)
        yield ReplyStart(reply.model)
        for index, block in enumerate(reply.content):
            if block["type"] == "text":
                for word in str(block["text"]).split(" "):
                    yield TextDelta(index, f"{word} ")
        yield ReplyEnd(reply)

    return stream
