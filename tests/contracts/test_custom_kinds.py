"""A program's own kinds of messages, with typed data."""

import pytest
from pydantic import BaseModel, ValidationError

from agent_cli.contracts.messages import CustomKind, CustomMessage, UserMessage


class Mail(BaseModel):
    sender: str


MAIL = CustomKind("mail", Mail)


def test_data_comes_back_as_it_was_given() -> None:
    message = MAIL.message(Mail(sender="Ann"))

    assert (message.role, message.data) == ("mail", {"sender": "Ann"})
    assert MAIL.data_of(message) == Mail(sender="Ann")


def test_other_messages_have_none() -> None:
    assert MAIL.data_of(UserMessage.of("hi")) is None
    assert MAIL.data_of(CustomMessage("weather", {"sender": "Ann"})) is None


def test_data_of_another_version_of_the_program_is_refused() -> None:
    with pytest.raises(ValidationError):
        MAIL.data_of(CustomMessage("mail", {"from": "Ann"}))
