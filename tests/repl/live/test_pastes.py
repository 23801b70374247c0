"""Marks that stand for long pastes."""

from agent_cli.repl.live.pastes import Pastes


def test_a_short_paste_is_text_and_a_long_one_a_mark() -> None:
    """More than 10 lines or 1,000 characters; line ends become newlines."""
    pastes = Pastes()

    assert pastes.shortened("1\r\n2\r3") == "1\n2\n3"
    assert pastes.shortened("\n" * 9) == "\n" * 9
    assert pastes.shortened("\n" * 5_000) == "[paste #1: 5,001 lines]"
    assert pastes.shortened("x" * 1_001) == "[paste #2: 1,001 characters]"


def test_marks_are_whole_again_when_they_are_sent() -> None:
    """In any order and as often as they stand there; a mark somebody typed is text."""
    pastes = Pastes()
    first = pastes.shortened("a" * 2_000)
    second = pastes.shortened("[paste #1: 2,000 characters]" + "\n" * 20)
    typed = "[paste #3: 5 lines]"

    whole = pastes.expanded(f"{second}{first}{typed}{first}")

    assert whole == f"[paste #1: 2,000 characters]{chr(10) * 20}{'a' * 2_000}{typed}{'a' * 2_000}"


def test_one_backspace_takes_a_whole_mark() -> None:
    """Else `[paste #1: 5,001 line` would be sent as it stands."""
    mark = Pastes().shortened("\n" * 5_000)

    assert Pastes().mark_before(f"look: {mark}") == len(mark)
    assert Pastes().mark_before(f"{mark} ") == 0
    assert Pastes().mark_before("") == 0
