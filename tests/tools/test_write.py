"""The tool write, on real files."""

import stat

import pytest

from tests.tools.calling import Tools


async def test_write_creates_a_new_file_with_its_folders(tools: Tools) -> None:
    result = await tools("write", path="new/folder/a.txt", content="one\ntwö\n")

    assert (tools.root / "new/folder/a.txt").read_bytes() == "one\ntwö\n".encode()
    assert result.text == "new/folder/a.txt created (2 lines, 9 bytes)."
    assert result.details == {
        "kind": "diff",
        "path": "new/folder/a.txt",
        "diff": "@@ -0,0 +1,2 @@\n+one\n+twö",
        "added": 2,
        "removed": 0,
    }


async def test_write_to_a_path_that_names_a_directory_makes_no_file(tools: Tools) -> None:
    """A file `new` would be in the way of the directory that is meant."""
    error = await tools.error("write", path="new/", content="one")

    assert error == "new/ names a directory. Name the file; its directories are made."
    assert not (tools.root / "new").exists()


async def test_write_to_a_path_of_windows_makes_no_file_of_that_name(tools: Tools) -> None:
    """Under WSL people paste such paths, and models repeat them."""
    for path in ("C:\\Users\\me\\x.txt", "d:/new/x.txt", "@C:\\x.txt"):
        error = await tools.error("write", path=path, content="one")

        assert error.startswith(f"{path} is a path of Windows")
    assert list(tools.root.iterdir()) == []


async def test_write_uses_a_folder_that_is_named_as_a_drive(tools: Tools) -> None:
    """Wine has links of such names."""
    (tools.root / "c:").mkdir()

    await tools.text("write", path="c:/x.txt", content="one")

    assert (tools.root / "c:" / "x.txt").read_text() == "one"


async def test_write_makes_no_workspace_in_the_place_of_one_that_was_moved(tools: Tools) -> None:
    """The file would be in a folder that is not the project."""
    moved = tools.root.rename(tools.root.with_name("moved"))

    error = await tools.error("write", path="new/a.txt", content="one")

    assert error == "The workspace is gone, so nothing can be written. Tell the user."
    assert not tools.root.exists()
    moved.rename(tools.root)


async def test_write_replaces_a_file_only_after_a_full_read(tools: Tools) -> None:
    """The model cannot mean to overwrite content it has not seen."""
    path = tools.file("a", "precious")

    refused = await tools.error("write", path="a", content="new")
    await tools.text("read", path="a")
    text = await tools.text("write", path="a", content="new")

    assert "was not read in full yet" in refused
    assert text.startswith("a replaced (1 line, 3 bytes)")
    assert path.read_text() == "new"


async def test_write_is_refused_after_a_partial_read(tools: Tools) -> None:
    path = tools.file("a", "one\ntwo\nthree\n")
    await tools.text("read", path="a", limit=2)

    await tools.error("write", path="a", content="new")

    assert path.read_text() == "one\ntwo\nthree\n"


async def test_write_is_refused_if_the_file_changed_since_the_read(tools: Tools) -> None:
    path = tools.file("a", "one")
    await tools.text("read", path="a")
    path.write_text("two")

    assert "changed since you read it" in await tools.error("write", path="a", content="new")
    assert path.read_text() == "two"


async def test_file_just_written_can_be_written_again(tools: Tools) -> None:
    await tools.text("write", path="a", content="one")
    await tools.text("write", path="a", content="two")

    assert (tools.root / "a").read_text() == "two"


async def test_write_replaces_an_empty_file_without_a_read(tools: Tools) -> None:
    path = tools.file("a", "")

    text = await tools.text("write", path="a", content="n")

    assert (text, path.read_text()) == ("a replaced (1 line, 1 byte).", "n")


@pytest.mark.parametrize(
    ("raw", "content", "expected"),
    [
        (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n"),
        (b"a\r\nb\n", "c\nd\n", b"c\nd\n"),
        (b"\xef\xbb\xbfa", "b", b"\xef\xbb\xbfb"),
        (b"\xe9", "é\n", b"\xe9\n"),
    ],
)
async def test_write_keeps_encoding_line_endings_and_mode(
    tools: Tools, raw: bytes, content: str, expected: bytes
) -> None:
    """`read` does not show them, so the model cannot have meant to change them."""
    path = tools.file("a", raw)
    path.chmod(0o755)
    await tools.text("read", path="a")

    await tools.text("write", path="a", content=content)

    assert path.read_bytes() == expected
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (".", "is a directory"),
        ("../outside", "outside the workspace"),
        ("link", "outside the workspace"),
        (".env", "may hold secrets"),
        ("read-only", "is read-only"),
        ("file/below", "could not be used"),
        ("binary", "Delete it first"),
    ],
)
async def test_path_that_cannot_be_written_is_an_error_with_the_reason(
    tools: Tools, name: str, words: str
) -> None:
    (tools.root / "link").symlink_to(tools.root.parent / "elsewhere")
    tools.file("read-only", "").chmod(0o444)
    tools.file("file", "")
    tools.file("binary", b"\0")

    assert words in await tools.error("write", path=name, content="x")
    assert not (tools.root.parent / "elsewhere").exists()


async def test_write_through_a_dangling_symlink_creates_the_target(tools: Tools) -> None:
    (tools.root / "link").symlink_to("target")

    await tools.text("write", path="link", content="x")

    assert (tools.root / "target").read_text() == "x"
    assert (tools.root / "link").is_symlink()


async def test_content_of_write_is_limited_in_size_and_characters(tools: Tools) -> None:
    assert "2,000,000" in await tools.error("write", path="a", content="x" * 2_000_001)
    assert "U+D800" in await tools.error("write", path="a", content="\ud800")
    assert list(tools.root.iterdir()) == []
