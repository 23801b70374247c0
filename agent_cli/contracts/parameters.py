"""The base class of every tool's parameters."""

from typing import Final

from pydantic import BaseModel, ConfigDict
from pydantic.config import JsonDict

COMMAND_LIMIT_MAX_S: Final = 600
"""The longest time that a call may give a command."""


def without_docstring(schema: JsonDict) -> None:
    """Remove the class docstring from a schema: it is for readers of the code and costs tokens."""
    schema.pop("description", None)


class Parameters(BaseModel):
    """Parameters given by the model; an unknown name is an error that the model reads."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=without_docstring)
