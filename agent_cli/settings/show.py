"""The effective settings as text, secrets masked, origins on request; the annotated example."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from agent_cli.settings.environment import OPTIONAL_SECRETS, Environment
from agent_cli.settings.layers import all_rules, rules_of, value_of
from agent_cli.settings.load import Loaded
from agent_cli.system.redaction import MASK, Redactor
from agent_cli.system.shapes import is_mapping, is_sequence

_SECRETS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    *dict.fromkeys(name for names in OPTIONAL_SECRETS.values() for name in names),
)


def show_settings(loaded: Loaded, environment: Environment, *, with_origin: bool) -> str:
    """Return one line for each setting, then one comment for each secret: set or not set.

    A comment after the value gives its origin, or without *with_origin* its description.
    """
    redactor = Redactor.of(environment)
    lines: list[str] = []
    described: Mapping[str, str] = {} if with_origin else descriptions()
    for key in all_rules():
        value = _toml(value_of(loaded.settings, key), redactor)
        line = f"# {key} is not set" if value is None else f"{key} = {value}"
        comment = _origin(key, loaded.origins) if with_origin else described.get(key)
        lines.append(f"{line}  # {comment}" if comment else line)
    for name in _SECRETS:
        state = f"set, {environment.origin(name)}" if environment.get(name) else "not set"
        lines.append(f"# {name}: {state}")
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        if base_url := environment.get(name):
            lines.append(f"# {name}: {redactor.text(base_url)}, {environment.origin(name)}")
    return "\n".join(lines) + "\n"


def settings_as_json(loaded: Loaded, environment: Environment) -> str:
    """Return a JSON object: `{"model": {"value", "origin": "FILE:LINE", "description"}, ...}`."""
    described = descriptions()
    redactor = Redactor.of(environment)
    shown = {
        key: {
            "value": _plain(value_of(loaded.settings, key), redactor),
            "origin": _origin(key, loaded.origins),
            "description": described.get(key, ""),
        }
        for key in all_rules()
    }
    return json.dumps(shown, ensure_ascii=False, indent=2)


def _plain(value: object, redactor: Redactor) -> object:
    """Return *value* as a JSON value, without secrets."""
    text = _toml(value, redactor)
    return None if text is None else tomllib.loads(f"value = {text}")["value"]


def shown_value(value: object, redactor: Redactor) -> str:
    """Return a setting's value as TOML, without secrets."""
    return _toml(value, redactor) or "nothing"


def _origin(key: str, origins: Mapping[str, str]) -> str:
    """Return the origin of a value; for a table, the origins of its parts that were set."""
    if key in origins:
        return origins[key]
    parts = [
        f"{part.removeprefix(key + '.')}: {origin}"
        for part, origin in origins.items()
        if part.startswith(key + ".")
    ]
    return "; ".join(parts) or "default"


def _toml(value: object, redactor: Redactor) -> str | None:
    """Return *value* as TOML; None stays None, which TOML cannot express."""
    if value is None:
        return None
    if hasattr(value, "_asdict") and isinstance(value, tuple):
        return _record(cast("tuple[object, ...]", value), redactor)
    if is_mapping(value):
        shown = {k: _without_headers(k, v) for k, v in value.items() if v is not None}
        pairs = (f"{json.dumps(k)} = {_toml(v, redactor)}" for k, v in shown.items())
        return "{ " + ", ".join(pairs) + " }" if value else "{}"
    if is_sequence(value):
        return "[" + ", ".join(filter(None, (_toml(part, redactor) for part in value))) + "]"
    if isinstance(value, str):
        return json.dumps(redactor.text(value), ensure_ascii=False)
    return json.dumps(value)


def _without_headers(name: str, value: object) -> object:
    """Return *value*; if it holds a hook's headers, only their names."""
    if name == "headers" and is_mapping(value):
        return dict.fromkeys(value, MASK)
    return value


def _record(record: tuple[object, ...], redactor: Redactor) -> str:
    """Return a record as an inline table without empty fields."""
    shown: list[str] = []
    for (name, rule), value in zip(rules_of(type(record)).items(), record, strict=True):
        part: object = value
        if rule.secret and is_mapping(value):
            part = dict.fromkeys(value, MASK)
        elif name == "args" and is_sequence(value):
            part = redactor.arguments([str(argument) for argument in value])
        if part is not None and part != "" and part != () and part != {}:
            shown.append(f"{name} = {_toml(part, redactor)}")
    return "{ " + ", ".join(shown) + " }"


# `appsettings.example.toml`: every setting with its default and its allowed values.

_NAME = "appsettings.example.toml"
_TABLE = re.compile(r"\[([\w.]+)\]")
_SETTING = re.compile(r"(?:# )?(\w+) = ")
_COMMENT = re.compile(r"  # (.*)")


def example_text() -> str:
    """Return the text of the file at the top of the repository."""
    here = Path(__file__).parent
    # A wheel holds it beside this module; a clone has it at the top, easy to find.
    packaged = here / _NAME
    return (packaged if packaged.exists() else here.parents[1] / _NAME).read_text(encoding="utf-8")


def descriptions() -> Mapping[str, str]:
    """Return the comment after each setting's value in the example."""
    described: dict[str, str] = {}
    table = ""
    for line in example_text().splitlines():
        if found := _TABLE.match(line):
            table = f"{found[1]}."
        elif found := _SETTING.match(line):
            comment = _COMMENT.search(line)
            if comment:
                described.setdefault(f"{table}{found[1]}", comment[1])
    return described
