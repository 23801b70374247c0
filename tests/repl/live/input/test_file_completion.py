"""Completion of files after an @: listed in the background, and again when they may change."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from agent_cli.repl.live.input import file_completion
from agent_cli.repl.live.input.file_completion import (
    FileChoices,
    directories_at,
    outside_choices,
)


class Folder:
    """Paths that can be listed; `open` lets a listing finish."""

    def __init__(self, *paths: str) -> None:
        self.paths = set(paths)
        self.listings = self.looks = 0
        self.open = threading.Event()
        self.open.set()
        self.all_takes: Callable[[], object] = lambda: None
        self.seen: set[str] | None = None  # by the listing at work, and no later one

    def all(self) -> set[str]:
        self.listings += 1
        self.open.wait(10)
        self.all_takes()
        return self._seen()

    def renewed(self) -> set[str]:
        self.looks += 1
        self.open.wait(10)
        return self._seen()

    def _seen(self) -> set[str]:
        seen, self.seen = self.seen, None
        return set(self.paths) if seen is None else seen


def texts(choices: FileChoices, before: str) -> list[str]:
    return [choice.text for choice in choices(before)]


def test_paths_are_offered_only_after_an_at_sign() -> None:
    """A URL names no file, and without an @ nothing is listed at all."""
    folder = Folder("a.py", "b.py")
    choices = FileChoices(folder, lambda: None)

    assert texts(choices, "me@exa") == []
    assert folder.listings == 0
    assert texts(choices, "look at @a") == ["a.py"]


def test_file_names_that_need_quotes_are_inserted_with_quotes() -> None:
    r"""S6: a name with a space or a newline arrives whole; it is shown on one line."""
    choices = FileChoices(Folder("my file.txt", 'a"b', "one\ntwo", "写真.png"), lambda: None)

    assert texts(choices, "@my") == ['"my file.txt"']
    assert texts(choices, '@"my f') == ['"my file.txt"']
    assert texts(choices, '@a"') == ['a"b']
    assert texts(choices, "@写") == ["写真.png"]
    (choice,) = choices("@two")
    assert (choice.text, choice.display_text) == (r'"one\ntwo"', "one two")
    assert choice.start_position == -len("two")


def test_old_file_list_is_used_until_the_new_one_is_ready() -> None:
    """S6: typing never waits for a refresh of the list; its end is announced."""
    now_s, changed, folder = [0.0], threading.Event(), Folder("old.py")
    choices = FileChoices(folder, changed.set, clock=lambda: now_s[0])
    assert texts(choices, "@") == ["old.py"]

    folder.paths.add("new.py")
    folder.open.clear()
    now_s[0] = 60.0
    assert texts(choices, "@") == ["old.py"]
    assert not changed.is_set()
    folder.open.set()
    assert changed.wait(10)

    assert texts(choices, "@") == ["new.py", "old.py"]


def test_a_missing_file_is_looked_for_without_listing_everything_again() -> None:
    """A listing of 50,000 files took 6 s on a busy machine, and a new file was found after 28 s."""
    now_s, changed, folder = [0.0], threading.Event(), Folder("old.py")
    choices = FileChoices(folder, changed.set, clock=lambda: now_s[0])
    folder.all_takes = lambda: now_s.append(now_s.pop() + 6)
    assert texts(choices, "@") == ["old.py"]

    folder.paths.add("new.py")
    now_s[0] += 0.3
    assert texts(choices, "@new") == []
    assert changed.wait(10)

    assert texts(choices, "@new") == ["new.py"]
    assert (folder.listings, folder.looks) == (1, 1)


def test_a_file_made_during_a_listing_is_found_after_it() -> None:
    """The listing may have passed its folder already; no key has to be pressed again."""
    now_s, changed, folder = [0.0], threading.Event(), Folder("old.py")
    choices = FileChoices(folder, changed.set, clock=lambda: now_s[0])
    assert texts(choices, "@") == ["old.py"]

    folder.seen, folder.paths = {"old.py"}, {"old.py", "new.py"}
    folder.open.clear()
    now_s[0] = 60.0
    assert texts(choices, "@new") == []
    assert texts(choices, "@new.") == []
    folder.open.set()
    assert changed.wait(10)

    assert texts(choices, "@new") == ["new.py"]


def test_failed_file_listing_offers_nothing_and_is_tried_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The working directory may be missing for a moment."""
    now_s, folder = [0.0], Folder("a.py")

    def broken() -> NoReturn:
        raise FileNotFoundError

    folder.all_takes = broken
    changed = threading.Event()
    choices = FileChoices(folder, changed.set, clock=lambda: now_s[0])
    assert texts(choices, "@") == []
    now_s[0] = 60.0
    texts(choices, "@")
    assert changed.wait(10)

    assert texts(choices, "@") == ["a.py"]
    assert capsys.readouterr().err == ""


def test_directories_are_offered_one_level_at_a_time() -> None:
    """For /add-dir, which accepts only directories."""
    for folder in ("library/tests", "lists", ".hidden"):
        Path(folder).mkdir(parents=True)
    Path("lines.txt").touch()

    assert [each.text for each in directories_at(Path(), "")] == ["library/", "lists/"]
    assert [each.text for each in directories_at(Path(), "LI")] == ["library/", "lists/"]
    assert [each.text for each in directories_at(Path(), "library/t")] == ["tests/"]
    assert [each.text for each in directories_at(Path(), "./.h")] == [".hidden/"]
    assert [*directories_at(Path(), "nothing/here/")] == []


def test_typed_name_is_found_among_more_entries_than_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a folder of 6,000 entries, some were not offered, whatever was typed."""
    monkeypatch.setattr(file_completion, "_ENTRIES_MAX", 1)
    names = ["one", "two", "three"]
    for name in names:
        Path(name).mkdir()

    directories = [each.text for name in names for each in directories_at(Path(), name)]
    entries = [each.text for name in names for each in outside_choices(Path(), f"see @./{name}")]

    assert directories == ["one/", "two/", "three/"]
    assert entries == ["./one/", "./two/", "./three/"]
