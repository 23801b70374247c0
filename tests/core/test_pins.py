"""Pins: entries of the record with numbers that stay."""

import pytest

from agent_cli.contracts.errors import UsageError
from agent_cli.core.conversation import Conversation
from agent_cli.core.pins import pin, pins, pins_and_former, unpin


def test_a_pin_keeps_its_number_until_it_is_taken_back() -> None:
    """A text pinned twice is held while one of the two is."""
    conversation = Conversation()
    assert [pin(conversation, text) for text in ("a", "b", "a")] == [1, 2, 3]

    assert unpin(conversation, 1) == "a"

    assert pins(conversation) == {2: "b", 3: "a"}
    assert pins_and_former(conversation) == ({2: "b", 3: "a"}, [])
    unpin(conversation, 3)
    assert pins_and_former(conversation) == ({2: "b"}, ["a", "a"])
    with pytest.raises(UsageError, match="no pin 3"):
        unpin(conversation, 3)
