"""The lines between two `---` at the top of a markdown file: what it is called, what it is for.

Not YAML: single values are all that is needed, and all that is ever written there.
"""

import re
from collections.abc import Mapping
from typing import Final

_FRONT_MATTER: Final = re.compile(r"---[ \t]*\r?\n(.*?\r?\n)?---[ \t]*(?:\r?\n|\Z)", re.DOTALL)

_INHERIT: Final = "inherit"
_MODELS: Final[Mapping[str, str]] = {"haiku": "small", "sonnet": "normal", "opus": "high"}


def split(text: str) -> tuple[dict[str, str] | None, str]:
    """Return the values by name, None where there is no front matter, and the text behind it."""
    found = _FRONT_MATTER.match(text)
    return (_fields(found[1] or ""), text[found.end() :]) if found else (None, text)


def model_name(text: str) -> str:
    """Return the alias or id that a `model:` field names; "" for the model asked otherwise."""
    lowered = text.strip().lower()
    return "" if lowered == _INHERIT else _MODELS.get(lowered, text.strip())


def _fields(front_matter: str) -> dict[str, str]:
    """Read `key: value` lines; lines below that are indented or items belong to the value."""
    fields: dict[str, str] = {}
    key = ""
    for line in front_matter.splitlines():
        if (line[:1].isspace() or line.startswith("- ")) and key:
            fields[key] = f"{fields[key]} {line.strip()}".strip()
        elif ":" in line:
            key, _, value = line.partition(":")
            value = value.strip()
            # > and | say how the indented lines below are joined.
            fields[key] = "" if value[:1] in (">", "|") else value
    return {key: _unquoted(value) for key, value in fields.items()}


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value
