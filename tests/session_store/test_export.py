"""Exported sessions: escaped, without secrets, self-contained."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Success, text_block
from agent_cli.core.conversation import Conversation
from agent_cli.session_store import SessionStore
from agent_cli.session_store.export import Format, export
from agent_cli.session_store.history import History
from agent_cli.system.redaction import Redactor
from tests.fakes import calls, tool_use
from tests.session_store.recordings import WORKSPACE, a_long_talk, recorded

FORMATS: tuple[Format, ...] = ("md", "html", "json", "atif")


def unchanged(text: str) -> str:
    return text


async def a_history(folder: Path) -> History:
    """Return the content of a long session."""
    store = SessionStore(folder)
    session, _ = await a_long_talk(store)
    session.close()
    return store.read(session.id)


def saying(folder: Path, text: str) -> History:
    """Return a session in which every message says *text*."""
    store = SessionStore(folder)
    session = recorded(store, conversation := Conversation())
    conversation.begin(UserMessage.of(text))
    conversation.add_reply(calls(tool_use("look", {"at": text}, "t1"), text=text))
    conversation.settle_call("t1", Success((text_block(text),), {"deep": [text]}))
    session.close()
    return store.read(session.id)


async def test_json_export_has_every_entry_and_refers_to_prompts_by_id(tmp_path: Path) -> None:
    """S2-13, S2-49, S2-50: each prompt once; hidden prompts and plugins' shared state, too."""
    history = await a_history(tmp_path)

    text = export(history, "json", redact=unchanged)

    document = json.loads(text)
    assert text.startswith('{\n  "')  # people read it, too

    ids = [prompt.id for prompt in history.prompts]
    header = history.header
    assert header is not None
    assert document["conversation"] == {
        "id": header.id,
        "user_id": "ada",
        "workspace": str(WORKSPACE),
        "created_at_ms": header.created_at_ms,
        "parent": None,
        "prompts": ids,
    }
    assert [prompt["visible"] for prompt in document["prompts"].values()].count(False) == 1
    first = document["prompts"][ids[0]]
    assert list(first) == [
        *("id", "user_id", "model", "at_ms", "visible", "input"),
        *("state", "usage", "output"),
    ]
    assert first["state"] == "completed"
    kinds = [output["kind"] for output in first["output"]]
    assert kinds == [
        *("text", "tool", "tool", "file", "widget", "reply"),
        *("thinking", "text", "reply"),
    ]


async def test_atif_export_is_indented_by_two_spaces(tmp_path: Path) -> None:
    """People read it, too."""
    text = export(await a_history(tmp_path), "atif", redact=unchanged)

    assert text.startswith('{\n  "')
    assert text.endswith("\n}\n")


async def test_markdown_export_shows_the_conversation(tmp_path: Path) -> None:
    shown = export(await a_history(tmp_path), "md", redact=unchanged)

    assert shown.startswith(
        "## You\n\nWrite me\na file.\n\n## Agent\n\nWait.\n\n"
        '```text\nlook {"at": "$ref"}: done\na tree\n```\n\n'
    )
    assert "Hidden." not in shown


def test_attached_file_is_no_markdown_of_the_user(tmp_path: Path) -> None:
    """A stranger's file could load images, and its headings would part the conversation."""
    store = SessionStore(tmp_path)
    session = recorded(store, conversation := Conversation())
    attached = text_block("[The user attached the file a.md: 2 lines]\n# Title\n![x](http://x)")
    conversation.begin(UserMessage((attached, text_block("What is in @a.md?"))))
    session.close()

    shown = export(store.read(session.id), "md", redact=unchanged)

    assert shown == (
        "## You\n\nWhat is in @a.md?\n\n"
        "```text\n[The user attached the file a.md: 2 lines]\n# Title\n![x](http://x)\n```\n"
    )


def test_code_fence_in_a_result_does_not_end_the_markdown_block(tmp_path: Path) -> None:
    """The text after it would become Markdown: links, images."""
    shown = export(saying(tmp_path, "````\n![x](http://x)"), "md", redact=unchanged)

    assert re.search(r"^`````text\nlook .*?^`````$", shown, re.DOTALL | re.MULTILINE)


class Page(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_export_escapes_markup_in_the_conversation(tmp_path: Path) -> None:
    evil = "</pre><script>alert(1)</script><img src=x onerror=alert(1)> & $title \x1b[31m"

    page = export(saying(tmp_path, evil), "html", redact=unchanged)

    parsed = Page(page)
    assert {"script", "img", "link"}.isdisjoint(parsed.tags)
    assert {"src", "href", "onerror"}.isdisjoint(parsed.attributes)
    assert parsed.text.count(evil.removesuffix("\x1b[31m").strip()) == 4
    assert "default-src 'none'" in page
    assert "\x1b" not in page


async def test_html_export_has_every_visible_entry(tmp_path: Path) -> None:
    page = Page(export(await a_history(tmp_path), "html", redact=unchanged))

    assert page.tags.count("details") == 7
    for text in ("Write me", "I wrote it.", "out.txt", "1 | 2", "We wrote a file."):
        assert text in page.text
    assert "Hidden." not in page.text


@pytest.mark.parametrize("to", FORMATS)
def test_export_redacts_secrets_but_the_record_keeps_them(tmp_path: Path, to: Format) -> None:
    """The record is for exact replay."""
    history = saying(tmp_path, "the key is open-sesame-1234 ok")

    shown = export(history, to, redact=Redactor(["open-sesame-1234"]).text)

    assert "sesame" not in shown
    assert "***" in shown
    [path] = tmp_path.glob("*.jsonl")
    assert "open-sesame-1234" in path.read_text()


def test_export_redacts_a_secret_split_by_an_escape_sequence(tmp_path: Path) -> None:
    """Once the escape sequence is removed, the secret would be readable."""
    store = SessionStore(tmp_path)
    session = recorded(store, conversation := Conversation())
    conversation.begin(UserMessage.of("the key is open-\x1b[1msesame-1234"))
    session.close()

    shown = export(store.read(session.id), "md", redact=Redactor(["open-sesame-1234"]).text)

    assert shown == "## You\n\nthe key is ***\n"


@pytest.mark.parametrize("to", FORMATS)
async def test_export_is_deterministic(tmp_path: Path, to: Format) -> None:
    history = await a_history(tmp_path)

    assert export(history, to, redact=unchanged) == export(history, to, redact=unchanged)
