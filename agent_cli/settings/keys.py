"""The dotted keys of all settings: the rule and the value of each."""

from typing import Annotated, get_args, get_origin

from agent_cli.settings.rules import SettingRule
from agent_cli.settings.schema import Settings


def rules_of(record: type) -> dict[str, SettingRule]:
    """Return the rules of a section or record by field name; nested sections are left out."""
    annotations: dict[str, object] = record.__annotations__
    return {
        name: get_args(annotation)[1]
        for name, annotation in annotations.items()
        if get_origin(annotation) is Annotated
    }


def all_rules() -> dict[str, SettingRule]:
    """Return every setting's rule by its dotted key, in the order of the schema."""
    rules = rules_of(Settings)
    for section in sections():
        values: object = getattr(Settings(), section)
        inner = rules_of(type(values))
        rules |= {f"{section}.{name}": rule for name, rule in inner.items()}
    return rules


def sections() -> tuple[str, ...]:
    """Return the names of the tables."""
    own = rules_of(Settings)
    return tuple(name for name in Settings._fields if name not in own)


def value_of(settings: Settings, key: str) -> object:
    """Return the value of a dotted key."""
    value: object = settings
    for part in key.split("."):
        value = getattr(value, part)
    return value
