"""What the parameters of every tool have in common."""

from pydantic import BaseModel, ConfigDict
from pydantic.config import JsonDict


def without_docstring(schema: JsonDict) -> None:
    """Drop what is written for readers of the code; the model pays for every word."""
    schema.pop("description", None)


class Parameters(BaseModel):
    """Parameters as the model gives them; a name that is not known is an error it reads."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=without_docstring)
