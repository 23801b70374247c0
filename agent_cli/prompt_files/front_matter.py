"""Front matter, the lines between two `---` at the top of a Markdown file: name, description.

Not full YAML: these files only need single values.
"""

import re
from collections.abc import Mapping
from typing import Final

_FRONT_MATTER: Final = re.compile(r"---[ \t]*\r?\n(.*?\r?\n)?---[ \t]*(?:\r?\n|\Z)", re.DOTALL)

_INHERIT: Final = "inherit"
_MODELS: Final[Mapping[str, str]] = {"haiku": "small", "sonnet": "normal", "opus": "high"}


def split(text: str) -> tuple[dict[str, str] | None, str]:
    """Return the values by name, None without front matter, and the text after it."""
    found = _FRONT_MATTER.match(text)
    return (_fields(found[1] or ""), text[found.end() :]) if found else (None, text)


def model_name(text: str) -> str:
    """Return the alias or id of a `model:` field; "" for "inherit"."""
    lowered = text.strip().lower()
    return "" if lowered == _INHERIT else _MODELS.get(lowered, text.strip())


def _fields(front_matter: str) -> dict[str, str]:
    """Read `key: value` lines; indented lines and items below belong to the value."""
    fields: dict[str, str] = {}
    key = ""
    for line in front_matter.splitlines():
        if (line[:1].isspace() or line.startswith("- ")) and key:
            fields[key] = f"{fields[key]} {line.strip()}".strip()
        elif ":" in line:
            key, _, value = line.partition(":")
            value = value.strip()
            # > and | only tell YAML how to join the indented lines below.
            fields[key] = "" if value[:1] in (">", "|") else value
    return {key: _unquoted(value) for key, value in fields.items()}


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value
