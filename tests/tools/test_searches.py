"""The tools grep and glob."""

import asyncio
import os
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted
from agent_cli.system import programs
from agent_cli.system.path_patterns import path_patterns
from agent_cli_tools import Workspace, search_runs, searches
from agent_cli_tools.searches import SearchOutput, expand_braces
from agent_cli_tools.session_resources import SessionResources
from tests.tables import each_row
from tests.tools.calling import Tools
from tests.waiting import until

FILES = {
    ".gitignore": "build/\n*.log\n!keep.log\n",
    "src/a.py": "import os\nneedle = 1\nprint(needle)\n",
    "src/b.ts": "const x = 'Needle'\n",
    "src/deep/.gitignore": "c.py\n",
    "src/deep/c.py": "needle\n",
    "src/deep/d.py": "one\ntwo\nneedle two\nfour\n",
    ".github/w.yml": "on: needle\n",
    "build/out.py": "needle\n",
    "x.log": "needle\n",
    "keep.log": "needle\n",
    ".env": "TOKEN=needle\n",
    "binary": "needle\0\n",
}

OUTSIDE = ("../*", "~/*", "/etc/*")
ELSEWHERE = "a pattern starts in the searched folder; give another one as path"
NONE = "[no matches for needle in .]"
DEEP = ("src/deep/d.py:1:one", "src/deep/d.py:2:two")


@pytest.fixture
def tree(tools: Tools) -> Tools:
    """A small repository, the first file the newest."""
    subprocess.run(["git", "init", "-q"], cwd=tools.root, check=True)
    for age, (name, content) in enumerate(FILES.items()):
        path = tools.file(name, content)
        os.utime(path, (2_000_000_000 - age, 2_000_000_000 - age))
    return tools


async def test_grep_finds_lines_newest_file_first(tree: Tools) -> None:
    text = await tree.text("grep", pattern="needle")

    assert text.splitlines() == [
        "src/a.py:2:needle = 1",
        "src/a.py:3:print(needle)",
        "src/deep/d.py:3:needle two",
        ".github/w.yml:1:on: needle",
        "keep.log:1:needle",
        "[1 file left out that may hold secrets]",
    ]


async def test_grep_marks_context_lines(tree: Tools) -> None:
    text = await tree.text("grep", pattern="two", path="src/deep", context=1)

    assert text.splitlines() == [
        "src/deep/d.py-1-one",
        "src/deep/d.py:2:two",
        "src/deep/d.py:3:needle two",
        "src/deep/d.py-4-four",
    ]


async def test_grep_marks_a_gap_between_lines_of_one_file(tools: Tools) -> None:
    """ripgrep ends that mark with CRLF, which was taken for no mark."""
    tools.file("a.txt", "word\n1\n2\n3\nword\n")

    text = await tools.text("grep", pattern="word", context=1)

    assert text.splitlines() == ["a.txt:1:word", "a.txt-2-1", "--", "a.txt-4-3", "a.txt:5:word"]


async def test_grep_shows_nothing_of_a_secret_file(tree: Tools) -> None:
    """S1-24: neither matching lines nor their context, in any mode."""
    tree.file(".env.local", "a\nCANARY\nb\n\n\n\nCANARY\n")

    for mode in ("content", "files", "count"):
        text = await tree.text("grep", pattern="CANARY", context=1, mode=mode)
        assert text == "[no matches for CANARY in .; 1 file left out that may hold secrets]"


async def test_separator_of_a_secret_file_is_left_out_with_it(tools: Tools) -> None:
    for name in ("a.txt", ".env", "b.txt"):
        tools.file(name, "needle\n")
        os.utime(tools.root / name, (2_000_000_000, 2_000_000_000))

    text = await tools.text("grep", pattern="needle", context=1)

    assert text.splitlines() == [
        "a.txt:1:needle",
        "--",
        "b.txt:1:needle",
        "[1 file left out that may hold secrets]",
    ]


async def test_searches_show_no_secret_of_a_home_directory(tools: Tools) -> None:
    """Threat 4: the folder they are in tells some secrets, and it may be the workspace itself."""
    tools.file(".docker/config.json", "needle")
    tools.file(".config/gh/hosts.yml", "needle")
    tools.file(".config/gh-dash/config.yml", "needle")

    for path in (".", ".config", ".config/gh-dash"):
        found = await tools.text("grep", pattern="needle", path=path)
        assert found.splitlines()[0] == ".config/gh-dash/config.yml:1:needle"
        names = await tools.text("glob", pattern="*.{json,yml}", path=path)
        assert names.splitlines()[0] == ".config/gh-dash/config.yml"
        assert "hosts.yml" not in names
        assert "config.json" not in names


async def test_grep_shows_no_settings_with_a_token(tools: Tools) -> None:
    """Threat 4: `read` refuses them, and they cannot be told by their names."""
    tools.file("a/.npmrc", "//registry/:_authToken=needle\n")
    tools.file("b/.npmrc", "save-exact=true # needle\n")

    text = await tools.text("grep", pattern="needle")

    assert text.splitlines() == [
        "b/.npmrc:1:save-exact=true # needle",
        "[1 left out that changed meanwhile, or may hold secrets]",
    ]


async def test_grep_says_that_it_shows_nothing_of_a_binary_file(tools: Tools) -> None:
    """ "No matches" would be untrue."""
    tools.file("named", "needle\0\n")
    tools.file("found/late", f"needle\n{'x' * 100_000}\n\0 needle\n")

    named = await tools.text("grep", pattern="needle", path="named")
    found = await tools.text("grep", pattern="needle", path="found")
    none = await tools.text("grep", pattern="thread", path="named")

    assert named == "named: binary; other matches in it are not shown"
    assert found.splitlines() == [
        "found/late:1:needle",
        "found/late: binary; other matches in it are not shown",
    ]
    assert none == "[no matches for thread in named]"


@pytest.mark.parametrize("mode", ["content", "files", "count"])
async def test_output_cut_in_the_middle_of_a_line_is_shown_without_it(
    tools: Tools, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The limit is one of bytes."""
    for number in range(3):
        tools.file(f"{number}.txt", "needle\n" * 12)

    whole: list[SearchOutput] = []
    sizes = iter(range(40))

    async def cut(_workspace: Workspace, arguments: Sequence[str]) -> SearchOutput:
        if not whole:
            whole.append(await searches.search(tools.workspace, arguments))
        return SearchOutput(whole[0].output[: next(sizes)], "the search was stopped")

    monkeypatch.setattr(search_runs, "search", cut)
    for _ in range(40):
        text = await tools.text("grep", pattern="needle", mode=mode)
        *lines, _notes = text.splitlines()
        ends = {"content": ":needle", "files": ".txt", "count": ".txt:12"}
        assert all(line.endswith(ends[mode]) for line in lines)


async def test_grep_modes_show_files_or_counts(tree: Tools) -> None:
    files = await tree.text("grep", pattern="needle", path="src", mode="files")
    counts = await tree.text("grep", pattern="needle", path="src", mode="count")

    assert files == "src/a.py\nsrc/deep/d.py"
    assert counts == "src/a.py:2\nsrc/deep/d.py:1"


async def test_grep_supports_glob_and_ignore_case(tree: Tools) -> None:
    text = await tree.text("grep", pattern="needle", glob="*.{ts,yml}", ignore_case=True)
    other = await tree.text("grep", pattern="needle", glob="!*.py", path="src", ignore_case=True)

    assert text.splitlines() == ["src/b.ts:1:const x = 'Needle'", ".github/w.yml:1:on: needle"]
    assert other == "src/b.ts:1:const x = 'Needle'"


@each_row(
    ("glob", "path"),
    [
        *(("deep/d*.py", "src"), ("src/deep/d*.py", "src"), ("/deep/d*.py", "src")),
        *(("./src/deep/d*.py", "."), ("{root}/src/deep/d*", "."), ("{root}/src/deep/d*", "src")),
        *(("d*.py,*.js", "."), ("d*.py, *.js", "."), ("d*.py *.js", ".")),
    ],
)
async def test_grep_glob_is_a_list_or_a_path_from_where_the_search_begins(
    tree: Tools, glob: str, path: str
) -> None:
    """ripgrep alone knows paths from the workspace's root only, and "no matches" was untrue."""
    glob = glob.replace("{root}", str(tree.root))

    text = await tree.text("grep", pattern="needle", glob=glob, path=path, mode="files")

    assert text == "src/deep/d.py"


@pytest.mark.parametrize("glob", ["./*.py", "./**/*.yml"])
async def test_grep_glob_with_a_dot_starts_at_the_root(tree: Tools, glob: str) -> None:
    text = await tree.text("grep", pattern="needle", glob=glob, mode="files")

    none = f"{NONE[:-1]}; no file there fits the glob {glob}]"
    assert text == (".github/w.yml" if glob.endswith("yml") else none)


@pytest.mark.parametrize("glob", ["w.yml/*", "*.rs", "deep/*.py"])
async def test_grep_says_that_no_file_fits_its_glob(tree: Tools, glob: str) -> None:
    """A glob with a folder starts where the search does: below it, nothing was found."""
    none = await tree.text("grep", pattern="needle", glob=glob)
    some = await tree.text("grep", pattern="absent", glob="*.py")

    assert none == f"{NONE[:-1]}; no file there fits the glob {glob}]"
    assert some == "[no matches for absent in .]"


async def test_grep_glob_excludes_folders_of_where_the_search_begins(tree: Tools) -> None:
    text = await tree.text("grep", pattern="needle", glob="!deep/*", path="src", mode="files")

    assert text == "src/a.py"


@pytest.mark.parametrize("name", ["[id].ts", "p/[[...rest]].ts", "[a]/(b)/{c}.ts", "x/[...y]/z.ts"])
async def test_pattern_may_be_a_name_with_brackets(tools: Tools, name: str) -> None:
    """Routers write parameters so; they were taken for classes of characters only."""
    tools.file(name, "needle")

    assert await tools.text("glob", pattern=name) == name
    assert await tools.text("glob", pattern=f"**/{name}") == name
    assert await tools.text("grep", pattern="needle", glob=name, mode="files") == name


@pytest.mark.parametrize(
    ("glob", "name"),
    [("*Notes of May*", "docs/Notes of May.md"), ("**/q*/Plan *.md", "a/q1/Plan B.md")],
)
async def test_glob_with_blanks_is_the_pattern_of_a_name(
    tools: Tools, glob: str, name: str
) -> None:
    """Taken apart as a list, its parts missed the file, and matched others."""
    for each in (name, "Notes", "a/q1/Plan", "other.md"):
        tools.file(each, "needle")

    assert await tools.text("glob", pattern=glob) == name
    assert await tools.text("grep", pattern="needle", glob=glob, mode="files") == name


@pytest.mark.parametrize("pattern", ["*é*", "한글é.txt", "**/*é.txt"])
async def test_glob_finds_names_of_macos(tools: Tools, pattern: str) -> None:
    """There an accent, or a part of a Korean syllable, is a character of its own."""
    name = unicodedata.normalize("NFD", "한글é.txt")
    tools.file(name, "x")
    tools.file("e.txt", "x")

    assert await tools.text("glob", pattern=pattern) == name


async def test_grep_glob_for_everything_does_not_search_ignored_files(tree: Tools) -> None:
    for everything in ("*", "**", "**/*"):
        text = await tree.text("grep", pattern="needle", glob=everything)
        assert "build/out.py" not in text


async def test_grep_with_a_limit_says_how_many_matches_exist(tree: Tools) -> None:
    result = await tree("grep", pattern="needle", limit=2)

    assert result.text.splitlines()[:2] == ["src/a.py:2:needle = 1", "src/a.py:3:print(needle)"]
    assert "2 of 5 matches shown" in result.text
    assert result.details == {"kind": "search", "matches": 2, "total": 5}


async def test_grep_can_search_one_file(tree: Tools) -> None:
    assert await tree.text("grep", pattern="import", path="src/a.py") == "src/a.py:1:import os"


async def test_grep_without_a_match_names_ignored_files_that_match(tree: Tools) -> None:
    """ "No matches" reads as "does not exist"; a secret file stays unnamed."""
    tree.file("scripts/.gitignore", "*\n")
    tree.file("scripts/writer.py", "example_writer\n")
    tree.file("scripts/.env", "example_writer\n")

    texts = [await tree.text("grep", pattern="example_writer", path=at) for at in ("scripts", ".")]

    assert texts == [
        f"[no matches for example_writer in {at};"
        " but .gitignore excludes what matches: scripts/writer.py]"
        for at in ("scripts", ".")
    ]


async def test_glob_without_a_match_names_ignored_files_that_match(tree: Tools) -> None:
    for number in range(5):
        tree.file(f"build/lib/n{number}.whl", "")

    text = await tree.text("glob", pattern="*.whl")

    found, _, more = text.partition(" excludes what matches: ")
    assert found == "[no files match *.whl in .; but .gitignore"
    assert more.endswith(" and 2 more]")


async def test_end_of_the_time_for_ignored_files_is_said(
    tree: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut(
        workspace: Workspace, arguments: Sequence[str], *, limit_s: float | None = None
    ) -> SearchOutput:
        found = await searches.search(workspace, arguments)
        return found if limit_s is None else SearchOutput(b"", "stopped")

    monkeypatch.setattr(search_runs, "search", cut)

    assert await tree.text("grep", pattern="nowhere") == (
        "[no matches for nowhere in .; not all of what .gitignore excludes was searched]"
    )


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("app/(group)/[id]/*.tsx", "app/(group)/[id]/page.tsx"),
        ("app/(group)/[id]/**/*.tsx", "app/(group)/[id]/page.tsx"),
        ("links/items/**/*.md", "data/items/docs/report.md"),
        ("build/*.py", "build/out.py"),
        ("./src/*.ts", "src/b.ts"),
    ],
)
async def test_glob_searches_the_folder_that_a_pattern_begins_with(
    tree: Tools, pattern: str, expected: str
) -> None:
    """Brackets in its name, a link, and an ignored folder, as a shell finds them."""
    tree.file("app/(group)/[id]/page.tsx", "")
    tree.file("data/items/docs/report.md", "")
    (tree.root / "links").mkdir()
    (tree.root / "links" / "items").symlink_to("../data/items")

    assert await tree.text("glob", pattern=pattern) == expected


@each_row(
    ("pattern", "expected"),
    [
        ("src/*.py", ["src/a.py"]),
        ("src/*", ["src/a.py", "src/b.ts"]),
        ("**/deep/*", ["src/deep/.gitignore", "src/deep/d.py"]),
        ("s*/**/?.py", ["src/a.py", "src/deep/d.py"]),
        ("src/d*", ["src/deep/.gitignore", "src/deep/d.py"]),  # no file, so in the folder
        ("src/*/", ["src/deep/.gitignore", "src/deep/d.py"]),
    ],
)
async def test_rest_of_a_pattern_is_matched_in_its_folder_only(
    tree: Tools, pattern: str, expected: list[str]
) -> None:
    """`src/*` names no file of `src/deep`, as for a shell, and for the glob of grep."""
    assert (await tree.text("glob", pattern=pattern)).splitlines() == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (b"a\n[1 line].py", "a\\n[1 line].py"),
        (b"a\xff.py", "a\\udcff.py"),
        ("a\u202eb.py".encode(), "a\\u202eb.py"),
        ("größe\u00a0 x.py".encode(), "größe\u00a0 x.py"),
    ],
)
async def test_name_of_a_file_is_one_line_of_a_result(
    tools: Tools, name: bytes, expected: str
) -> None:
    """The rest of a name must not read like another file, or like words of the tool."""
    (tools.root / os.fsdecode(name)).write_text("word\n")

    assert (await tools.text("glob", pattern="*.py")).splitlines() == [expected]
    assert (await tools.text("read", path=".")).splitlines() == [expected, "[1 entry]"]


async def test_grep_searches_a_file_whose_name_has_a_line_break(tools: Tools) -> None:
    """It was left out, with the reason that it had changed or may hold secrets."""
    (tools.root / "a\nb\nc.py").write_text("word\n")

    for mode, expected in (("content", ":1:word"), ("files", ""), ("count", ":1")):
        assert await tools.text("grep", pattern="word", mode=mode) == f"a\\nb\\nc.py{expected}"


async def test_name_that_is_no_text_is_shown_by_grep(tools: Tools) -> None:
    (tools.root / os.fsdecode(b"a\xff.py")).write_text("word\n")

    assert await tools.text("grep", pattern="word") == "a\\udcff.py:1:word"


async def test_glob_follows_no_link_out_of_the_searched_folder(
    tree: Tools, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nor does it search the whole workspace for the rest of the pattern."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "a.md").write_text("")
    (tree.root / "out").symlink_to(outside)

    for pattern in ("out/*.md", "out/*", "out/**/*.py"):
        expected = f"[no files match {pattern} in .]"
        assert await tree.text("glob", pattern=pattern) == expected


@each_row(
    ("pattern", "expected"),
    [
        ("one$", ["crlf.txt:1:one", "src/deep/d.py:1:one"]),
        (r"one\r?\ntwo", ["crlf.txt:1:one", "crlf.txt:2:two", *DEEP]),
        ("one\r?\ntwo", ["crlf.txt:1:one", "crlf.txt:2:two", *DEEP]),
        (r"^o[^\n]+", ["crlf.txt:1:one", "src/deep/d.py:1:one"]),
        (r"one\r$", ["crlf.txt:1:one"]),
        (r"one\x0d?$", ["crlf.txt:1:one", "src/deep/d.py:1:one"]),
        ("e\r", ["crlf.txt:1:one"]),
        (r"^o[^\r\n]+$", ["crlf.txt:1:one", "src/deep/d.py:1:one"]),
        *((rf"one\{code}", ["crlf.txt:1:one"]) for code in ("x{d}", "x{0D}", "u000d")),
        (r"C:\\r|one$", ["crlf.txt:1:one", "src/deep/d.py:1:one"]),
    ],
)
async def test_grep_knows_the_ends_of_lines(
    tree: Tools, pattern: str, expected: Sequence[str]
) -> None:
    """Both CRLF, and within the pattern, which may need other options of ripgrep."""
    os.utime(tree.file("crlf.txt", "one\r\ntwo\r\n"), (2_000_000_009, 2_000_000_009))

    text = await tree.text("grep", pattern=pattern, glob="*.{txt,py}")

    assert sorted(text.splitlines()) == sorted(expected)


async def test_fault_among_ignored_files_does_not_fail_the_search(
    tree: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a folder of a database in a container, which belongs to another user."""
    [rg, *_options] = searches.searcher(tree.root)
    script = (
        "import os, sys\n"
        f"if '--no-ignore' not in sys.argv: os.execv({rg!r}, sys.argv)\n"
        "sys.exit(print('./data: Permission denied', file=sys.stderr) or 2)"
    )
    program = [sys.executable, "-c", script]
    monkeypatch.setattr(searches, "searcher", lambda workspace: program)
    fault = "not all of what .gitignore excludes was searched"

    assert await tree.text("grep", pattern="nowhere") == f"[no matches for nowhere in .; {fault}]"
    assert await tree.text("glob", pattern="*.rs") == f"[no files match *.rs in .; {fault}]"


async def test_unreadable_files_are_named_and_the_others_searched(
    monkeypatch: pytest.MonkeyPatch, tree: Tools
) -> None:
    """ripgrep ends with 2 then: without a match, the model was told to correct its call."""
    rg = searches.searcher(tree.root)[0]
    said = (
        "rg: ./data: IO error for operation on ./data: Permission denied (os error 13)\n"
        "rg: ./a: b: Input/output error (os error 5)\n"
    )
    script = (
        f"import subprocess, sys; subprocess.run([{rg!r}, *sys.argv[1:]]);"
        f"sys.exit(sys.stderr.write({said!r}) and 2)"
    )
    program = [sys.executable, "-c", script]
    monkeypatch.setattr(searches, "searcher", lambda _root: program)
    note = "left out, as they cannot be read: data, a: b"

    assert await tree.text("grep", pattern="nowhere") == f"[no matches for nowhere in .; {note}]"
    found = await tree.text("grep", pattern="two", path="src", mode="files")
    assert found.splitlines() == ["src/deep/d.py", f"[{note}]"]
    assert await tree.text("glob", pattern="*.rs") == f"[no files match *.rs in .; {note}]"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
async def test_folder_that_cannot_be_read_is_an_error_or_named(tree: Tools) -> None:
    (tree.root / "src").chmod(0)
    try:
        error = await tree.error("grep", pattern="needle", path="src")
        text = await tree.text("glob", pattern="*.md")
    finally:
        (tree.root / "src").chmod(0o755)

    assert "src" in error
    assert "Permission denied" in error
    assert text == "[no files match *.md in .; left out, as they cannot be read: src]"


async def test_glob_takes_alternatives_longer_than_a_name_may_be(tree: Tools) -> None:
    """The words before the first slash are tried as a folder."""
    pattern = f"{{src,{','.join(f'package-{number}' for number in range(40))}}}/*.py"

    assert await tree.text("glob", pattern=pattern) == "src/a.py"


async def test_search_without_a_match_says_so(tree: Tools) -> None:
    assert await tree.text("grep", pattern="absent") == "[no matches for absent in .]"
    assert await tree.text("glob", pattern="*.rs") == "[no files match *.rs in .]"


@pytest.mark.parametrize("pattern", ["--pre=touch", "-f/etc/passwd", "--", "-e"])
async def test_search_pattern_is_never_taken_for_an_option(tree: Tools, pattern: str) -> None:
    tree.file("flags.txt", f"{pattern}\n")

    assert await tree.text("grep", pattern=pattern) == f"flags.txt:1:{pattern}"
    assert "no files match" in await tree.text("glob", pattern="--files-from=x")


async def test_invalid_regex_returns_the_error_of_ripgrep(tree: Tools) -> None:
    text = await tree.error("grep", pattern="(")

    assert "regex parse error" in text
    assert "Correct it" in text


async def test_crashed_search_is_an_error(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exit code of 1 means "nothing found"; the model would believe a crashed program."""
    tools.file("a.txt", "needle")
    broken = [sys.executable, "-c", "import a_package_that_is_not_there"]
    monkeypatch.setattr(searches, "searcher", lambda workspace: broken)

    for call in (tools.error("grep", pattern="needle"), tools.error("glob", pattern="*")):
        assert "The search was not possible: Traceback" in await call


async def test_grep_cuts_a_long_line(tree: Tools) -> None:
    tree.file("long.txt", "needle" + "x" * 10_000 + "\n")

    text = await tree.text("grep", pattern="needle", path="long.txt")

    assert len(text) < 600


async def test_grep_result_stays_below_its_size_limit(tree: Tools) -> None:
    tree.file("many.txt", ("needle " + "y" * 200 + "\n") * 5_000)

    text = await tree.text("grep", pattern="needle", path="many.txt", limit=5_000)

    assert len(text.encode()) <= 50 * 1024
    assert "of 5,000 matches shown" in text


@pytest.mark.parametrize("name", ["missing", "/etc", "../x", ".env", "pipe"])
async def test_path_that_cannot_be_searched_is_an_error_naming_the_path(
    tree: Tools, name: str
) -> None:
    os.mkfifo(tree.root / "pipe")

    for tool in ("grep", "glob"):
        assert name in await tree.error(tool, pattern="x", path=name)


async def test_glob_finds_files_by_name_newest_first(tree: Tools) -> None:
    text = await tree.text("glob", pattern="**/*.{py,ts}")

    assert text.splitlines() == ["src/a.py", "src/b.ts", "src/deep/d.py"]


@each_row(
    ("pattern", "path", "expected"),
    [
        ("*.py", ".", ["src/a.py", "src/deep/d.py"]),
        ("src/*.py", ".", ["src/a.py"]),
        ("*.py", "src/deep", ["src/deep/d.py"]),
        ("{root}/src/**/*.py", ".", ["src/a.py", "src/deep/d.py"]),
        (".github/**", ".", [".github/w.yml"]),
        ("*.yml,*.ts", ".", ["src/b.ts", ".github/w.yml"]),
        ("!x", ".", ["[no files match !x in .]"]),
        *((each, ".", [f"[no files match {each} in .; {ELSEWHERE}]"]) for each in OUTSIDE),
        (
            "*",
            ".",
            [
                *(".gitignore", "src/a.py", "src/b.ts", "src/deep/.gitignore", "src/deep/d.py"),
                *(".github/w.yml", "keep.log", "binary"),
                "[1 file left out that may hold secrets]",
            ],
        ),
    ],
)
async def test_glob_patterns_follow_gitignore(
    tree: Tools, pattern: str, path: str, expected: list[str]
) -> None:
    text = await tree.text("glob", pattern=pattern.format(root=tree.root), path=path)

    assert text.splitlines() == expected


async def test_glob_limits_its_result_and_refuses_a_file_as_path(tree: Tools) -> None:
    for number in range(1_200):
        tree.file(f"many/{number:04}-{'n' * 60}", "")

    some = await tree.text("glob", pattern="many/", limit=5)
    all_of_them = await tree.text("glob", pattern="many/", limit=5_000)

    assert "5 of 1,200 files shown" in some
    assert len(all_of_them.encode()) <= 50 * 1024
    assert "is a file" in await tree.error("glob", pattern="*", path="src/a.py")


def git_files(root: Path) -> list[str]:
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listing = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return listing.stdout.splitlines()


async def test_glob_lists_the_same_files_as_git(tree: Tools) -> None:
    """Negations, anchors, nested files and folders: git is the reference."""
    tree.file("n/.gitignore", "/top\n*.tmp\n!important.tmp\nsub/\n# c\n\\#odd\n**/gen/*.c\nq?\n")
    for name in (
        "top",
        "in/top",
        "a.tmp",
        "important.tmp",
        "sub/x",
        "#odd",
        "gen/x.c",
        "w/gen/y.c",
    ):
        tree.file(f"n/{name}", "")
    tree.file("n/qa", "")
    listed = git_files(tree.root)

    text = await tree.text("glob", pattern="*", limit=1_000)

    found = {line for line in text.splitlines() if not line.startswith("[")}
    assert found == set(listed) - {".env"}


async def test_added_directory_can_be_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tree: Tools
) -> None:
    (tmp_path / "more" / "b").mkdir(parents=True)
    for age, name in enumerate(("a.txt", "b/c.txt")):
        (tmp_path / "more" / name).write_text("needle\n")
        os.utime(tmp_path / "more" / name, (2_000_000_000 - age, 2_000_000_000 - age))
    both = Tools(Workspace(tree.root, shared=SessionResources(extra_dirs=[tmp_path / "more"])))

    lines = await both.text("grep", pattern="needle", path=str(tmp_path / "more"))
    below = await both.text(
        "grep", pattern="needle", path=str(tmp_path / "more"), glob="b/*.txt", mode="files"
    )
    names = await both.text("glob", pattern="*.txt", path=str(tmp_path / "more"))

    assert lines.splitlines() == [f"{tmp_path}/more/{name}.txt:1:needle" for name in ("a", "b/c")]
    assert below == f"{tmp_path}/more/b/c.txt"
    assert names.splitlines() == [f"{tmp_path}/more/{name}.txt" for name in ("a", "b/c")]


async def test_invalid_ignore_rules_are_skipped_and_never_quoted(tree: Tools) -> None:
    """Threat 4: a repository may link an ignore file to a secret, to get a line of it quoted."""
    tree.file(".env", "TOKEN=[z-CANARY\n[z-a]\n\\\nx.py\n")
    (tree.root / ".ignore").symlink_to(".env")
    (tree.root / "src" / ".ignore").symlink_to("../.env")
    tree.file("src/x.py", "needle\n")

    for path in (".", "src"):
        assert await tree.text("grep", pattern="nowhere", path=path) == (
            f"[no matches for nowhere in {path}]"
        )
    assert "x.py" not in await tree.text("grep", pattern="needle", mode="files")
    assert "CANARY" not in await tree.error("grep", pattern="(", path="src")


@pytest.mark.parametrize("pattern", ["[z-a]", "a\\"])
async def test_invalid_glob_is_an_error_that_quotes_the_pattern(tree: Tools, pattern: str) -> None:
    named = await tree.error("glob", pattern=pattern)

    assert named.startswith(f"{pattern} is no pattern for names (")
    assert "error parsing glob" in await tree.error("grep", pattern="needle", glob=pattern)


async def test_pipe_in_place_of_an_ignore_file_does_not_block_a_search(tools: Tools) -> None:
    """Threat 17: opening one blocks until there is a writer."""
    tools.file("src/a.py", "needle")
    os.mkfifo(tools.root / ".gitignore")

    for name in ("grep", "glob"):
        told = await tools.error(name, pattern="needle", path="src")
        assert told.endswith(f"{tools.root / '.gitignore'} is a pipe. Tell the user.")


async def test_ripgrep_config_file_is_not_read(
    tree: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may contain --pre, which runs a program."""
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tree.file("rc", "--files-with-matches\n")))

    assert "src/b.ts:1:" in await tree.text("grep", pattern="Needle", path="src")


def installed_rg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program of that name outside the workspace."""
    program = tmp_path_factory.mktemp("installed") / "rg"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


async def test_search_without_ripgrep_is_an_error_that_names_the_program(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second search engine would have another dialect of regular expressions."""
    monkeypatch.setattr(searches, "find_program", lambda name, outside: None)

    for name in ("grep", "glob"):
        assert "ripgrep (rg) is not installed" in await tools.error(name, pattern="x")


async def test_rg_program_in_the_workspace_is_not_run(
    tools: Tools, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tools.file("bin/rg", "#!/bin/sh\necho CANARY >&2\nexit 2\n")
    fake.chmod(0o755)
    found = installed_rg(tmp_path_factory)
    monkeypatch.setenv("PATH", f"{fake.parent}:bin:{found.parent}")
    monkeypatch.setattr(programs, "scripts_folder", lambda: tools.root / "nowhere")

    assert searches.searcher(tools.workspace.root)[0] == str(found)


async def test_rg_shim_of_a_version_manager_is_not_run(
    tools: Tools, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 13: a shim runs a program named by a `.tool-versions` in the workspace."""
    shims = tmp_path_factory.mktemp("manager") / "shims"
    shims.mkdir()
    (shims / "rg").write_text("#!/bin/sh\n")
    (shims / "rg").chmod(0o755)
    found = installed_rg(tmp_path_factory)
    monkeypatch.setenv("PATH", f"{shims}:{found.parent}")
    monkeypatch.setattr(programs, "scripts_folder", lambda: tools.root / "nowhere")

    assert searches.searcher(tools.workspace.root)[0] == str(found)


@pytest.fixture
def slow_search(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> Tools:
    """A search that takes a minute, and creates a file when it has begun."""
    script = f"import time; open({str(tools.root / 'started')!r}, 'w').close(); time.sleep(300)"
    monkeypatch.setattr(searches, "searcher", lambda workspace: [sys.executable, "-c", script])
    return tools


async def test_search_is_stopped_at_its_time_limit(
    slow_search: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 17: a search on a slow disk or network drive must not block the run."""
    monkeypatch.setattr(searches, "LIMIT_S", 0.5)

    text = await slow_search.text("grep", pattern="x")

    assert "stopped after 0.5 s" in text


async def test_stopped_search_keeps_what_it_found_newest_file_first(
    tree: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ripgrep prints files as it finds them; none of the result may read like a whole one."""
    printed = (
        b"keep.log\x001:0:needle\n--\nsrc/deep/d.py\x003:8:needle two\n--\n"
        b"src/a.py\x002:10:needle = 1\n--\nsrc/a.py\x003:21:print(needle)\n"
    )

    async def stopped(_workspace: Workspace, _arguments: Sequence[str], **_: float) -> SearchOutput:
        return SearchOutput(next(outputs), "the search was stopped after 20 s; narrow it")

    monkeypatch.setattr(search_runs, "search", stopped)

    outputs = iter([printed, b""])
    some = await tree("grep", pattern="needle")
    none = await tree("grep", pattern="needle")

    assert some.text.splitlines() == [
        "src/a.py:2:needle = 1",
        "--",
        "src/a.py:3:print(needle)",
        "--",
        "src/deep/d.py:3:needle two",
        "--",
        "keep.log:1:needle",
        "[the search was stopped after 20 s; narrow it]",
    ]
    assert some.details == {"kind": "search", "matches": 4, "total": 4, "cut": True}
    assert none.text == (
        "[no matches for needle in . so far; the search was stopped after 20 s; narrow it]"
    )


async def test_search_is_stopped_by_ctrl_c(slow_search: Tools) -> None:
    token = slow_search.cancel = CancelToken()
    started = slow_search.root / "started"

    async def stop() -> None:
        await until(started.exists)
        token.cancel()

    with pytest.raises(Aborted):
        async with asyncio.timeout(60):
            await asyncio.gather(slow_search("grep", pattern="x"), stop())


async def test_secrets_among_hits_are_found_once_a_file_beside_the_event_loop(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 200,000 hits, each looked up by itself, it held the session for 0.8 s."""
    for name in ("a.txt", "b.txt", ".env"):
        tools.file(name, "needle\n" * 9)
    asked: list[tuple[str, bool]] = []

    def noted(path: Path | str) -> bool:
        name = Path(path).name
        asked.append((name, threading.current_thread() is threading.main_thread()))
        return name == ".env"

    for module in (search_runs, searches):
        monkeypatch.setattr(module, "is_secret", noted)

    text = await tools.text("grep", pattern="needle")
    assert sorted(asked) == [(".env", False), ("a.txt", False), ("b.txt", False)]
    assert text.count("needle") == 18

    asked.clear()
    await tools.text("glob", pattern="*.txt")
    assert sorted(asked) == [("a.txt", False), ("b.txt", False)]


async def test_files_that_were_compared_are_not_compared_again_behind_gitignore(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a workspace of 200,000 files, a pattern that nothing matches took half a minute."""
    tools.file(".ignore", "built/\n")
    for name in ("a.txt", "b.txt", "built/c.txt"):
        tools.file(name, "")
    compared: list[list[str]] = []
    fits = search_runs.fits

    def noted(spec: GitIgnoreSpec, names: Sequence[str]) -> Iterator[bool]:
        compared.append(sorted(names))
        return fits(spec, names)

    monkeypatch.setattr(search_runs, "fits", noted)

    await tools.text("glob", pattern="*.zzz")

    seen, ignored = [".ignore", "a.txt", "b.txt"], ["built/c.txt"]
    assert compared == [seen, seen, ignored, ignored]


@given(
    st.lists(st.text("ab*?/.!", min_size=1, max_size=6), min_size=1, max_size=3),
    st.lists(st.text("ab/.", min_size=1, max_size=5).map(lambda text: text.strip("./"))),
)
def test_names_fit_as_the_library_says(lines: list[str], names: list[str]) -> None:
    """Its expressions alone decide what no pattern with a "!" takes back."""
    names = [name for name in names if name and "//" not in name]
    try:
        spec = path_patterns(lines)
    except ValueError:
        return

    assert [*search_runs.fits(spec, names)] == [*map(spec.match_file, names)]


async def test_end_of_a_search_is_awaited_beside_the_event_loop(
    tree: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed program that waits for a network disk does not end before that answers."""
    threads: list[threading.Thread] = []

    class Watched(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            threads.append(threading.current_thread())
            return super().wait(timeout)

    monkeypatch.setattr(searches, "Popen", Watched)

    await tree.text("grep", pattern="needle")

    assert threads
    assert threading.main_thread() not in threads


async def test_search_that_finds_too_much_is_stopped(
    tree: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "OUTPUT_BYTES_MAX", 50)

    assert "found too much" in await tree.text("grep", pattern=".", path="src")


@each_row(
    ("pattern", "expected"),
    [
        ("*.py", ["*.py"]),
        ("*.{ts,tsx}", ["*.ts", "*.tsx"]),
        ("{a,b{c,d}}", ["a", "bc", "a", "bd"]),
        ("{a}", ["{a}"]),
        ("{,x}y", ["y", "xy"]),
    ],
)
def test_braces_in_globs_expand_to_alternatives(pattern: str, expected: list[str]) -> None:
    assert sorted(expand_braces(pattern)) == sorted(expected)


def test_expansion_of_braces_is_limited() -> None:
    assert len(expand_braces("{a,b}" * 40)) < 1_000
