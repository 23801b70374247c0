"""The ranking of many paths."""

import time

import pytest

from agent_cli.repl.live.input.path_search import FOUND_MAX, PathSearch


def test_names_come_before_paths_word_starts_before_middles_and_short_before_long() -> None:
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


def test_case_does_not_matter_and_nothing_typed_offers_the_shortest() -> None:
    """A user who types `readme` means README.md."""
    search = PathSearch(["README.md", "a.py"])

    assert search.best("readme") == ["README.md"]
    assert search.best("") == ["a.py", "README.md"]
    assert search.best("zzz") == []


def test_characters_in_order_prefer_those_that_stand_together_and_begin_words() -> None:
    """`fb` finds foo_bar before a path that merely contains both letters."""
    search = PathSearch(["xfxxxb.py", "foo_bar_long_name.py", "off/ab.py"])

    assert search.best("fb")[0] == "foo_bar_long_name.py"
    assert search.best("foo/bar") == []


def test_hidden_names_are_offered_once_their_dot_is_typed() -> None:
    """At the start of a name: a dot inside a name does not ask for hidden files."""
    search = PathSearch([".github/ci.yml", ".env", "src/.cache/x", "src/app.py"])

    assert search.best("ci") == []
    assert search.best("") == ["src/app.py"]
    assert search.best(".e")[0] == ".env"
    assert search.best("src/.c") == ["src/.cache/x"]


def test_names_with_newlines_and_wide_characters_are_found() -> None:
    """A newline inside a name does not begin another name."""
    search = PathSearch(["a\nb.txt", "図/写真.png"])

    assert search.best("b.txt") == ["a\nb.txt"]
    assert search.best("写") == ["図/写真.png"]


@pytest.mark.parametrize("word", ["mdcmpn299", "p3cmpn8.py", "mdcmpnzz", "ocomponen"])
def test_a_longer_word_narrows_what_the_shorter_one_found(word: str) -> None:
    """Typed key by key or pasted at once, the result is the same."""
    paths = [f"part-{n % 7}/module_{n}/component_{n}.py" for n in range(3_000)]
    typing = PathSearch(paths)

    for end in range(1, len(word) + 1):
        assert typing.best(word[:end]) == PathSearch(paths).best(word[:end])
    assert len(typing.best("component")) == FOUND_MAX


def test_50_000_paths_take_no_longer_than_a_person_notices() -> None:
    """S6: the bar is 30 ms a key on a quiet machine; here, relative to one plain pass."""
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
