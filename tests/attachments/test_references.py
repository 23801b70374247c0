"""References to files in a prompt, such as @src/a.py."""

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.attachments.references import Reference, reference_before, reference_to, references


@given(st.text(min_size=1))
def test_reference_written_for_any_path_is_read_as_the_same_path(path: str) -> None:
    """S6: names with spaces, quotes, newlines and wide characters work when inserted."""
    written = reference_to(path)

    assert references(f"see @{written} ").__next__() == Reference(4, len(written), path)
    assert "\n" not in written


def test_reference_must_begin_a_word() -> None:
    """A URL names no file."""
    assert list(references("me@example.com @a.py")) == [Reference(15, 4, "a.py")]


def test_reference_is_read_with_and_without_trailing_punctuation() -> None:
    """Only a look at the files can decide; the longer path is tried first."""
    assert list(references("see @a.png, or not")) == [
        Reference(4, 6, "a.png,"),
        Reference(4, 5, "a.png"),
    ]


def test_unfinished_reference_before_the_cursor_is_found() -> None:
    """An open quote counts, a closed one does not."""
    assert reference_before("see @src/a") == Reference(4, 5, "src/a")
    assert reference_before('see @"two wo') == Reference(4, 7, "two wo")
    assert reference_before("see @") == Reference(4, 0, "")
    assert reference_before('see @"two words"') is None
    assert reference_before("see @a b") is None
