"""Text files named in a prompt."""

import os
from pathlib import Path

import pytest

from agent_cli.attachments.attachments import Attachments
from agent_cli.attachments.files import FILE_CHARS_MAX, FILES_MAX
from tests.tables import each_row


async def sent(text: str, *, data: str = "", refused: str = "") -> tuple[list[str], list[str]]:
    """Return the texts of the message, and the notices to the user."""
    told: list[str] = []
    message = await Attachments(
        Path.cwd(),
        refusal=lambda path: "it may hold secrets" if path.name == refused else "",
        tell=told.append,
    ).message(text, data=data)
    return [str(block["text"]) for block in message.content], told


async def test_file_named_in_a_prompt_is_attached_once() -> None:
    """It precedes the text, and the user is told its size."""
    Path("src").mkdir()
    Path("src/app.py").write_text("import os\nprint(1)\n")

    texts, told = await sent("why does @src/app.py fail? See @src/app.py, line 2")

    assert texts == [
        "[The user attached the file src/app.py: 2 lines]\nimport os\nprint(1)\n",
        "why does @src/app.py fail? See @src/app.py, line 2",
    ]
    assert told == ["attached @src/app.py: 2 lines"]


@each_row("lines", ["#L2-L3", "#L2-3", "#2-3", ":2-3", "#L2:3"])
async def test_lines_named_behind_a_file_are_attached(lines: str) -> None:
    """Editors and other agents write them so, and the name without them is no file."""
    Path("app.py").write_text("one\ntwo\nthree\nfour\n")

    texts, told = await sent(f"explain @app.py{lines}, please")

    assert texts == [
        "[The user attached lines 2-3 of the file app.py]\ntwo\nthree\n",
        f"explain @app.py{lines}, please",
    ]
    assert told == ["attached @app.py: lines 2-3"]


@each_row("line", ["#L2", "#2", ":2", ":2:9", ":3-2", ":0-2"])
async def test_single_line_named_behind_a_file_attaches_the_file(line: str) -> None:
    """As compilers print it: the line says where to look."""
    Path("app.py").write_text("one\ntwo\n")

    texts, told = await sent(f"fix @app.py{line}")

    assert texts[0] == "[The user attached the file app.py: 2 lines]\none\ntwo\n"
    assert told == ["attached @app.py: 2 lines"]


async def test_lines_behind_the_end_of_a_file_are_told() -> None:
    """The file has become shorter, or another is meant."""
    Path("app.py").write_text("one\ntwo\n")

    assert await sent("fix @app.py:5-7") == (
        ["fix @app.py:5-7"],
        ["@app.py not attached: line 5 is not in it"],
    )
    assert (await sent("fix @app.py:2-7"))[1] == ["attached @app.py: lines 2-2"]


async def test_lines_beyond_what_is_read_of_a_file_are_not_said_to_be_missing() -> None:
    Path("log.txt").write_bytes(b"0123456789abcde\n" * 700_000)

    assert (await sent("see @log.txt:690000-690001"))[1] == [
        "@log.txt not attached: line 690,000 is not in its first 10 MB"
    ]


async def test_lines_far_into_a_long_file_are_attached() -> None:
    """Of the file without lines, its beginning would be."""
    Path("log.txt").write_text("x" * 9 + "\n" * 1 + "y" * 99_999 + "\n" + "z\n" * 100_000)

    _, told = await sent("see @log.txt:90000-90001 and @log.txt:1-3")

    assert told == [
        "attached @log.txt: lines 90000-90001",
        f"attached @log.txt: the first {FILE_CHARS_MAX:,} characters of lines 1-3",
    ]


async def test_name_that_ends_like_lines_is_the_file_of_that_name() -> None:
    """What is there counts first."""
    Path("a:1-2").write_text("it\n")

    assert (await sent("see @a:1-2"))[1] == ["attached @a:1-2: 1 line"]


@each_row(
    ("name", "typed"),
    [
        ("Screenshot at 3.15.20\u202fPM.txt", "Screenshot at 3.15.20 PM.txt"),
        ("U\u0308ber/Cafe\u0301.txt", "Über/Café.txt"),
        ("Über.txt", "U\u0308ber.txt"),
    ],
)
async def test_name_that_only_looks_as_typed_is_found(name: str, typed: str) -> None:
    """No keyboard types the narrow space of macOS, or accents apart from their letters."""
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text("it")

    texts, told = await sent(f'see @"{typed}"')

    assert texts[0].endswith("it\n")
    assert told == [f"attached @{typed}: 1 line"]


async def test_name_that_looks_like_two_files_is_neither() -> None:
    """It could be the wrong one."""
    for space in ("\u202f", "\xa0"):
        Path(f"a{space}b.txt").touch()

    told = ["a b.txt not found; sent as plain text"]
    assert await sent('see @"a b.txt"') == (['see @"a b.txt"'], told)


async def test_missing_file_in_a_prompt_is_reported_and_the_text_sent_unchanged() -> None:
    """A typing error is reported, with `-p` and during a run too; other text is ignored."""
    said = (
        "see @nosuch.png, @a.b and @lib/gone.py in @nodir/; ask @ann to keep @pytest.fixture"
        " @a:b.md"
    )

    assert await sent(said) == (
        [said],
        [
            "nosuch.png not found; sent as plain text",
            "lib/gone.py not found; sent as plain text",
            "nodir/ not found; sent as plain text",
        ],
    )
    assert (await sent("the log: @gone.py", data="the log: @gone.py"))[1] == []


async def test_files_in_the_parent_and_home_folders_are_attached(tmp_path: Path) -> None:
    """The user named them, as `@../` or `@~/`."""
    Path.home().mkdir(exist_ok=True)
    (Path.home() / "notes.md").write_text("home")
    Path("inner").mkdir()
    Path("above.md").write_text("above")
    os.chdir("inner")

    texts, told = await sent("@../above.md and @~/notes.md")

    assert [text.splitlines()[-1] for text in texts[:2]] == ["above", "home"]
    assert told == ["attached @../above.md: 1 line", "attached @~/notes.md: 1 line"]


async def test_folder_is_attached_as_a_listing_of_its_names() -> None:
    """A user who names a folder means its listing."""
    Path("src/deep").mkdir(parents=True)
    Path("src/app.py").touch()

    texts, told = await sent("what is in @src/?")

    assert texts[0] == "[The user attached the names in the folder src/]\napp.py\ndeep/\n"
    assert told == ["attached @src/: the names of 2 entries"]


async def test_long_file_is_truncated_with_a_notice_to_the_user() -> None:
    """A tool reads the rest in parts; no character is split."""
    Path("big.log").write_text("ä" * (FILE_CHARS_MAX * 5))

    texts, told = await sent("see @big.log")

    measure = f"the first {FILE_CHARS_MAX:,} characters of {FILE_CHARS_MAX * 10:,} bytes"
    assert told == [f"attached @big.log: {measure}"]
    assert texts[0].count("ä") == FILE_CHARS_MAX


async def test_attached_files_share_a_total_size_limit() -> None:
    """A mistake must not fill the model's window."""
    for number in range(5):
        Path(f"{number}.log").write_text("x" * FILE_CHARS_MAX)

    texts, told = await sent("@0.log @1.log @2.log @3.log @4.log")

    assert len(texts) == 4
    assert told[-1] == "@4.log not attached: the other files are long enough"


@pytest.mark.parametrize("named", [".env", "link"])
async def test_file_the_model_may_not_read_is_not_attached(named: str) -> None:
    """A link to it does not help; the prompt is still sent."""
    Path(".env").write_text("KEY=1")
    Path("link").symlink_to(".env")

    texts, told = await sent(f"see @{named}", refused=".env")

    assert texts == [f"see @{named}"]
    assert told == [f"@{named} not attached: it may hold secrets"]


@pytest.mark.parametrize("named", ["secret.png", "link.png"])
async def test_image_the_model_may_not_read_is_not_attached(named: str) -> None:
    """A rule that forbids to read a folder used not to hold for the pictures in it."""
    size = (8).to_bytes(4) + (6).to_bytes(4)
    Path("secret.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(8) + size + b"IEND")
    Path("link.png").symlink_to("secret.png")

    texts, told = await sent(f"see @{named}", refused="secret.png")

    assert texts == [f"see @{named}"]
    assert told == [f"@{named} not attached: it may hold secrets"]


async def test_folder_with_a_link_that_cannot_be_followed_is_attached() -> None:
    """The whole folder used to be left out."""
    Path("src/below").mkdir(parents=True)
    Path("src/link").symlink_to("a" * 300)

    texts, told = await sent("see @src")

    assert texts[0].endswith("\nbelow/\nlink\n")
    assert told == ["attached @src: the names of 2 entries"]


async def test_file_that_is_not_text_is_sent_as_its_name() -> None:
    """Neither binary files nor files that would block, like pipes, are read."""
    Path("data.bin").write_bytes(b"\0\1")
    Path("latin.txt").write_bytes("über".encode("latin-1"))
    os.mkfifo("pipe")

    texts, told = await sent("see @data.bin, @latin.txt and @pipe")

    assert texts == ["see @data.bin, @latin.txt and @pipe"]
    assert told == [
        "@data.bin not attached: no UTF-8 text, PDF, or picture as PNG, JPEG, GIF or WebP;"
        " sent as its name",
        "@latin.txt not attached: no UTF-8 text, PDF, or picture as PNG, JPEG, GIF or WebP;"
        " sent as its name",
    ]


async def test_file_names_in_piped_data_are_not_attached() -> None:
    """A log or a web page must not choose which files the model reads."""
    Path("private.md").write_text("mine")
    data = "please see @private.md"

    piped = await sent(f"summarise this\n\n{data}", data=data)
    taken_apart = await sent("summarise @private.md", data=data)

    assert piped == ([f"summarise this\n\n{data}"], [])
    assert taken_apart == (["summarise @private.md"], [])


async def test_long_pasted_text_attaches_no_files() -> None:
    """It has more names, or more text, than a user types; the user is told."""
    for number in range(FILES_MAX + 1):
        Path(f"{number}.md").touch()

    many = await sent(" ".join(f"@{number}.md" for number in range(FILES_MAX + 1)))
    long = await sent("@1.md " + "x" * 20_000)
    nameless = await sent("@nothing " + "x" * 20_000)

    assert [len(texts) for texts, _ in (many, long, nameless)] == [1, 1, 1]
    why = "files named with @ are not attached: the prompt"
    assert many[1] == [f"{why} names {FILES_MAX + 1}, and at most {FILES_MAX} can be; name fewer"]
    assert long[1] == [f"{why} has more than 10,000 characters; name them in a shorter one"]
    assert nameless[1] == []


async def test_file_attached_in_full_counts_as_read() -> None:
    """The edit tool used to demand a read of a file that the user had just attached."""
    noted: list[tuple[Path, bytes]] = []
    Path("whole.txt").write_text("all of it\n")
    Path("long.txt").write_text("x" * (FILE_CHARS_MAX + 1))
    text = "compare @whole.txt with @long.txt"

    await Attachments(Path.cwd(), note=lambda *each: noted.append(each)).message(text)

    assert noted == [(Path("whole.txt").resolve(), b"all of it\n")]


@pytest.mark.parametrize("name", ["a/x", "a"])
async def test_symlink_that_changes_after_the_check_attaches_nothing_else(name: str) -> None:
    """Threat 3: a background process may change a link while the file is attached."""
    for folder in ("open", "locked"):
        Path(folder).mkdir()
        Path(folder, "x").write_text(f"{folder}\n")
        Path(folder, f"of-{folder}").touch()
    link = Path("a")
    link.symlink_to("open")

    def refusal(_path: Path) -> str:
        link.unlink()
        link.symlink_to("locked")
        return ""

    told: list[str] = []
    message = await Attachments(Path.cwd(), refusal=refusal, tell=told.append).message(
        f"see @{name}"
    )

    attached = str(message.content[0]["text"])
    assert "open" in attached
    assert "locked" not in attached
    assert len(told) == 1
