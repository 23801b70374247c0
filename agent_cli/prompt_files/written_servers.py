"""The field `mcpServers` of an agent's definition: names of servers, and servers defined there."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final

from agent_cli.prompt_files import field_block
from agent_cli.system.records import dataclass, field
from agent_cli.system.shapes import is_array, is_object

FIELD: Final = "mcpServers"
_BRACKETS_MAX: Final = 500
_CHARS_MAX: Final = 64_000
_DEPTH_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class WrittenServers:
    """The servers of a definition.

    Attributes:
        names: All of them, in order.
        entries: Name -> entry, as in `.mcp.json`, of those that are defined there.
    """

    names: tuple[str, ...] = ()
    entries: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]], hash=False
    )


def written_servers(text: str) -> WrittenServers | None:
    """Return the servers of the definition *text*; None without the field.

    Raises:
        ValueError: The field cannot be read; says why.
    """
    block = field_block(text, FIELD)
    if not block:
        return None
    pairs = [*_pairs(next(iter(_mapping(_loaded(block)).values()), ""))]
    names = tuple(dict.fromkeys(name for name, _ in pairs))
    return WrittenServers(names, {name: entry for name, entry in pairs if entry})


def _loaded(block: str) -> object:
    import yaml  # few definitions have the field

    if len(block) > _CHARS_MAX:
        raise ValueError(f"its {FIELD} must not have more than {_CHARS_MAX} characters")
    # Its time grows with the square of their number and more: minutes for 60,000.
    if block.count("[") + block.count("{") > _BRACKETS_MAX:
        raise ValueError(f"its {FIELD} must not have more than {_BRACKETS_MAX} opening brackets")
    try:
        events = [*yaml.parse(block)]
        # An alias stands for a part written elsewhere, and a few lines of them for gigabytes.
        if any(isinstance(event, yaml.events.AliasEvent) for event in events):
            raise ValueError(f"its {FIELD} must not have aliases (*name)")
        # The loader calls itself for each level.
        levels = (
            isinstance(event, yaml.events.CollectionStartEvent)
            - isinstance(event, yaml.events.CollectionEndEvent)
            for event in events
        )
        if max(accumulate(levels), default=0) > _DEPTH_MAX:
            raise ValueError(f"its {FIELD} is nested too deeply")
        # Every scalar stays text: an argument 1.10 or `no` is what was written.
        return yaml.load(block, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        reason = " ".join(str(getattr(error, "problem", None) or "a character").split())
        raise ValueError(f"its {FIELD} cannot be read as YAML: {reason}") from error


def _pairs(value: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield each server with its entry, which is empty for a mere name."""
    if isinstance(value, str):
        yield from ((name, {}) for name in _names(value.split(",")))
    elif is_array(value):
        for item in value:
            yield from _pairs(item)
    else:
        for name, entry in _mapping(value).items():
            yield name, _mapping(entry or {})


def _names(items: Iterable[str]) -> Iterator[str]:
    return filter(None, (item.strip() for item in items))


def _mapping(value: object) -> Mapping[str, object]:
    if is_object(value):
        return {str(name): each for name, each in value.items()}
    raise ValueError(f"its {FIELD} must be names of servers, or names with a table each")
