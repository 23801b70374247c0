"""The tool edit, on real files."""

import pytest

from agent_cli.contracts.timeline import Json
from tests.tools.calling import Tools


def one(old: str, new: str, *, everywhere: bool = False) -> list[Json]:
    return [{"old": old, "new": new, "all": everywhere}]


async def test_edit_replaces_a_text_and_returns_the_diff(tools: Tools) -> None:
    path = tools.file("src/a.py", "one\ntwo\nthree\n")

    result = await tools("edit", path="src/a.py", edits=one("two", "2\n2.5"))

    assert path.read_text() == "one\n2\n2.5\nthree\n"
    assert result.text == "src/a.py: 1 edit, lines 2–3 changed (+2 −1)."
    assert result.details == {
        "kind": "diff",
        "path": "src/a.py",
        "diff": "@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2.5\n three",
        "added": 2,
        "removed": 1,
    }


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"caf\xe9 one\r\n\xff\n", b"caf\xe9 two\r\n\xff\n"),
        (b"\xef\xbb\xbfone\r\n", b"\xef\xbb\xbftwo\r\n"),
        ("“one” \t\n".encode(), "“two” \t\n".encode()),
    ],
)
async def test_edit_keeps_every_other_byte_of_the_file(
    tools: Tools, raw: bytes, expected: bytes
) -> None:
    """Not UTF-8, a byte order mark, mixed endings, blanks at line ends, no newline at the end."""
    path = tools.file("a", raw)

    await tools.text("edit", path="a", edits=one("one", "two"))

    assert path.read_bytes() == expected


async def test_edit_counts_the_lines_that_read_counts(tools: Tools) -> None:
    """Of bare CR, as old Macs ended lines, `edit` made lines of its own."""
    tools.file("a", b"one\rtwo\rthree")

    shown = await tools.text("read", path="a")
    edited = await tools.text("edit", path="a", edits=one("two", "2"))

    assert (shown.count("\t"), edited) == (1, "a: 1 edit, line 1 changed (+1 −1).")


@pytest.mark.parametrize(
    ("old", "advice"), [("", "Use write to create it."), ("a", "Find it with glob.")]
)
async def test_edit_that_would_create_a_file_names_write(
    tools: Tools, old: str, advice: str
) -> None:
    """Other programs create a file so, and glob finds none."""
    refusal = await tools.error("edit", path="new", edits=one(old, "b"))

    assert refusal == f"new does not exist. {advice}"


async def test_only_ascii_is_added_to_a_file_of_unknown_encoding(tools: Tools) -> None:
    """The model is told how to add other letters; the bytes of the file stay as they are."""
    raw = "# 日本語のテスト\nx = 1\n".encode("shift_jis")
    path = tools.file("a", raw)

    refusal = await tools.error("edit", path="a", edits=one("x = 1", "x = 1  # 数"))
    await tools.text("edit", path="a", edits=one("x = 1", "x = 2"))

    assert "only ASCII can be added" in refusal
    assert path.read_bytes() == raw.replace(b"1", b"2")


async def test_byte_order_mark_can_be_quoted(tools: Tools) -> None:
    path = tools.file("a", b"\xef\xbb\xbfone\r\ntwo\r\n")

    await tools.text("edit", path="a", edits=one("\ufeffone\ntwo", "\ufeff1\n2"))
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n"
    await tools.text("edit", path="a", edits=one("\ufeff1", "1"))

    assert path.read_bytes() == b"1\r\n2\r\n"


async def test_several_edits_are_all_made_or_none(tools: Tools) -> None:
    path = tools.file("a", "one two")
    good, bad = one("one", "1"), one("three", "3")

    text = await tools.error("edit", path="a", edits=good + bad)
    assert path.read_text() == "one two"
    await tools.text("edit", path="a", edits=good + one("two", "2"))

    assert "Edit 2 of 2" in text
    assert path.read_text() == "1 2"


async def test_edit_with_old_equal_to_new_is_skipped_with_a_note(tools: Tools) -> None:
    path = tools.file("a", "one two")

    text = await tools.text(
        "edit", path="a", edits=[{"old": "one", "new": "one"}, {"old": "two", "new": "2"}]
    )

    assert path.read_text() == "one 2"
    assert "1 with old equal to new skipped" in text
    assert "the same" in await tools.error("edit", path="a", edits=one("one", "one"))


async def test_edits_that_cancel_each_other_are_refused(tools: Tools) -> None:
    tools.file("a", "one")
    back_and_forth: list[Json] = [{"old": "one", "new": "two"}, {"old": "two", "new": "one"}]

    assert "change nothing" in await tools.error("edit", path="a", edits=back_and_forth)


async def test_edit_of_a_text_that_occurs_twice_needs_the_all_option(tools: Tools) -> None:
    path = tools.file("a", "x\ny\nx\n")

    assert "lines 1, 3" in await tools.error("edit", path="a", edits=one("x", "z"))
    await tools.text("edit", path="a", edits=one("x", "z", everywhere=True))

    assert path.read_text() == "z\ny\nz\n"


async def test_misquoted_edit_is_repaired_only_after_the_file_was_read(tools: Tools) -> None:
    """A repair is a guess about the text that the model saw, so it must have read the file."""
    path = tools.file("a", "if x:\n    one\n")
    misquoted = one("  if x:\n      one", "  if x:\n      two")

    assert "was not read in full" in await tools.error("edit", path="a", edits=misquoted)
    await tools.text("read", path="a")
    text = await tools.text("edit", path="a", edits=misquoted)

    assert path.read_text() == "if x:\n    two\n"
    assert "repaired: indentation (2 spaces removed from every line). Check" in text


async def test_file_changed_since_the_last_read_accepts_only_exact_edits(tools: Tools) -> None:
    path = tools.file("a", "one\ntwo\n")
    await tools.text("read", path="a")
    path.write_text("one\ntwo\nthree\n")

    stale = await tools.error("edit", path="a", edits=one("two  ", "2"))
    exact = await tools.text("edit", path="a", edits=one("two", "2"))

    assert "changed since you read it" in stale
    assert "had changed since you read it" in exact
    assert path.read_text() == "one\n2\nthree\n"


async def test_edited_file_still_counts_as_read(tools: Tools) -> None:
    """Otherwise every second edit would need another read."""
    path = tools.file("a", "one\ntwo\n")
    await tools.text("read", path="a")
    await tools.text("edit", path="a", edits=one("one", "1"))

    await tools.text("edit", path="a", edits=one("two  ", "2  "))

    assert path.read_text() == "1\n2\n"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing", None, "does not exist"),
        ("binary", b"a\0b", "is binary"),
        (".", None, "is a directory"),
        ("read-only", b"a", "is read-only"),
        (".env", b"a", "may hold secrets"),
        ("../outside", None, "outside the workspace"),
    ],
)
async def test_path_that_cannot_be_edited_is_an_error_with_the_reason(
    tools: Tools, name: str, content: bytes | None, words: str
) -> None:
    if content is not None:
        tools.file(name, content).chmod(0o444 if name == "read-only" else 0o644)

    assert words in await tools.error("edit", path=name, edits=one("a", "b"))


async def test_number_and_size_of_edits_are_limited(tools: Tools) -> None:
    tools.file("a", "a")
    many: list[Json] = [{"old": str(n), "new": ""} for n in range(51)]

    assert "50" in await tools.error("edit", path="a", edits=many)
    assert "2,000,000" in await tools.error("edit", path="a", edits=one("a", "x" * 2_000_001))
    assert "at least 1" in await tools.error("edit", path="a", edits=[])


async def test_edit_with_a_character_the_encoding_lacks_is_refused(tools: Tools) -> None:
    path = tools.file("a", b"caf\xe9")

    assert "U+20AC" in await tools.error("edit", path="a", edits=one("caf", "€"))
    assert path.read_bytes() == b"caf\xe9"


async def test_edit_through_a_symlink_keeps_the_symlink(tools: Tools) -> None:
    target = tools.file("real", "one")
    (tools.root / "link").symlink_to("real")

    await tools.text("edit", path="link", edits=one("one", "two"))

    assert (tools.root / "link").is_symlink()
    assert target.read_text() == "two"
    assert sorted(path.name for path in tools.root.iterdir()) == ["link", "real"]
