"""The ranking of many paths."""

import time

from agent_cli.repl.live.input.file_completion import FOUND_MAX, PathSearch
from tests.tables import each_row


def test_search_ranks_names_before_paths_word_starts_first_and_short_first() -> None:
    """S6: the likeliest matches come first; no path is listed twice."""
    paths = [
        "app/",
        "app/zebra.py",
        "src/app.py",
        "src/my_app.py",
        "src/wrapper.py",
        "mapped/x.py",
        "a/p/p.py",
        "zzz",
    ]

    assert PathSearch(paths).best("app") == [
        "app/",
        "src/app.py",
        "src/my_app.py",
        "src/wrapper.py",
        "app/zebra.py",
        "mapped/x.py",
        "a/p/p.py",
    ]


def test_search_ignores_case_and_an_empty_search_finds_the_shortest_first() -> None:
    """A user who types `readme` means README.md."""
    search = PathSearch(["README.md", "a.py"])

    assert search.best("readme") == ["README.md"]
    assert search.best("") == ["a.py", "README.md"]
    assert search.best("zzz") == []


def test_fuzzy_search_prefers_adjacent_characters_and_word_starts() -> None:
    """`fb` finds foo_bar before a path that merely contains both letters."""
    search = PathSearch(["xfxxxb.py", "foo_bar_long_name.py", "off/ab.py"])

    assert search.best("fb")[0] == "foo_bar_long_name.py"
    assert search.best("foo/bar") == []


def test_hidden_files_are_found_once_their_dot_is_typed() -> None:
    """The dot must begin a name: one inside a name does not ask for hidden files."""
    search = PathSearch([".github/ci.yml", ".env", "src/.cache/x", "src/app.py"])

    assert search.best("ci") == []
    assert search.best("") == ["src/app.py"]
    assert search.best(".e")[0] == ".env"
    assert search.best("src/.c") == ["src/.cache/x"]


def test_file_names_with_newlines_and_wide_characters_are_found() -> None:
    """A newline inside a name does not begin another name."""
    search = PathSearch(["a\nb.txt", "図/写真.png"])

    assert search.best("b.txt") == ["a\nb.txt"]
    assert search.best("写") == ["図/写真.png"]


@each_row("word", ["mdcmpn299", "p3cmpn8.py", "mdcmpnzz", "ocomponen"])
def test_typing_a_word_key_by_key_finds_the_same_as_the_whole_word(word: str) -> None:
    """Each longer word searches only what the shorter one found."""
    paths = [f"part-{n % 7}/module_{n}/component_{n}.py" for n in range(3_000)]
    typing = PathSearch(paths)

    for end in range(1, len(word) + 1):
        assert typing.best(word[:end]) == PathSearch(paths).best(word[:end])
    assert len(typing.best("component")) == FOUND_MAX


def test_search_of_50_000_paths_is_fast_enough_to_go_unnoticed() -> None:
    """S6: the limit is 30 ms per key on a quiet machine; here, relative to one plain pass."""
    paths = [f"packages/part-{n % 97}/source/module_{n}/component_{n}.py" for n in range(50_000)]
    search = PathSearch(paths)
    search.best("x")

    started_s = time.process_time()
    for _ in range(3):
        sum(len(path.lower()) for path in paths)
    plain_s = time.process_time() - started_s
    started_s = time.process_time()
    found = search.best("mdlcmpn4999")
    matching_s = time.process_time() - started_s

    assert "packages/part-52/source/module_4999/component_4999.py" in found
    assert matching_s < 5 * plain_s
