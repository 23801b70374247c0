"""Typed data in custom messages of a program."""

import pytest
from pydantic import BaseModel, ValidationError

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.messages import CustomKind, CustomMessage, UserMessage


class Mail(BaseModel):
    sender: str


MAIL = CustomKind("mail", Mail)


def test_custom_message_data_round_trips() -> None:
    message = MAIL.message(Mail(sender="Ann"))

    assert (message.role, message.data) == ("mail", {"sender": "Ann"})
    assert MAIL.data_of(message) == Mail(sender="Ann")


def test_custom_message_of_data_of_another_type_is_refused() -> None:
    """A dict in place of the model was an AttributeError."""
    with pytest.raises(AgentCliError, match="data of a message of the kind mail must be Mail, not"):
        MAIL.message({"sender": "Ann"})  # type: ignore[arg-type]  # without a type checker


def test_custom_message_data_of_another_kind_is_none() -> None:
    assert MAIL.data_of(UserMessage.of("hi")) is None
    assert MAIL.data_of(CustomMessage("weather", {"sender": "Ann"})) is None


def test_custom_message_data_with_other_fields_is_refused() -> None:
    with pytest.raises(ValidationError):
        MAIL.data_of(CustomMessage("mail", {"from": "Ann"}))
