"""The state of all plugins, as recorded in the conversation.

It is stored nowhere else, so a resumed, forked or rewound conversation has the state of that point
automatically.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from copy import deepcopy
from typing import Any, NamedTuple

from agent_cli.contracts.errors import PluginError
from agent_cli.contracts.events import EventSink, Notice
from agent_cli.contracts.messages import CustomMessage
from agent_cli.contracts.timeline import Json
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import noted
from agent_cli.plugins.api import PluginState

ENTRY = "plugin_state"
_UNTYPED = 0


class _Recorded(NamedTuple):
    """A recorded state; the last entry of a plugin counts."""

    version: int
    value: Json


class PluginStates(MutableMapping[str, Json]):
    """Plugin name → state. Every write is checked, and recorded if it changes anything.

    Names that no plugin owns are free for tools to share, unchecked. The state of a plugin that is
    no longer installed stays as it is.
    """

    def __init__(
        self,
        conversation: Conversation,
        kinds: Mapping[str, PluginState[Any]],  # Any: as in Plugin.state
        tell: EventSink,
    ) -> None:
        self._conversation = conversation
        self._kinds = kinds
        recorded = _recorded(conversation)
        self._values = {name: found.value for name, found in recorded.items()}
        for name, found in recorded.items():
            if name in kinds and found.value is not None:
                self._restore(kinds[name], found, tell)

    def __getitem__(self, name: str) -> Json:
        value = self._values.get(name)
        if value is None:
            raise KeyError(name)
        # A copy: a change in place would not be recorded.
        return deepcopy(value)

    def __setitem__(self, name: str, value: Json) -> None:
        """Check and record *value*.

        Raises:
            PluginError: *value* does not fit the type its plugin declared.
        """
        kind = self._kinds.get(name)
        if kind is not None and value is not None:
            value = kind.check(value).model_dump(mode="json")
        if self._values.get(name) != value:
            self._record(name, kind.version if kind else _UNTYPED, value)

    def __delitem__(self, name: str) -> None:
        if self._values.get(name) is None:
            raise KeyError(name)
        self._record(name, _UNTYPED, None)

    def __iter__(self) -> Iterator[str]:
        return (name for name, value in self._values.items() if value is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _record(self, name: str, version: int, value: Json) -> None:
        self._values[name] = deepcopy(value)
        data: Json = {"plugin": name, "version": version, "state": deepcopy(value)}
        self._conversation.note(CustomMessage(ENTRY, data))

    def _restore(self, kind: PluginState[Any], found: _Recorded, tell: EventSink) -> None:
        """Bring a recorded state to the current version, or reset it."""
        try:
            if found.version == kind.version:
                self[kind.plugin] = found.value
            else:
                value = kind.check(_migrated(kind, found)).model_dump(mode="json")
                self._record(kind.plugin, kind.version, value)
        except Exception as error:  # a plugin's own validator may raise anything
            self._record(kind.plugin, kind.version, None)
            reason = error if isinstance(error, PluginError) else f"plugin {kind.plugin!r}: {error}"
            tell(Notice("warning", f"{reason}; what was kept of version {found.version} is reset"))


def _recorded(conversation: Conversation) -> dict[str, _Recorded]:
    found: dict[str, _Recorded] = {}
    for data in noted(conversation.between_replies, ENTRY):
        match data:
            case {"plugin": str(plugin), "version": int(version), "state": value}:
                found[plugin] = _Recorded(version, value)
            case _:
                pass
    return found


def _migrated(kind: PluginState[Any], found: _Recorded) -> Json:
    """Migrate a value recorded under another version.

    Raises:
        PluginError: The plugin cannot read the value.
    """
    if kind.migrate is None or not isinstance(found.value, dict):
        raise PluginError(f"plugin {kind.plugin!r} cannot read its state of another version")
    try:
        return kind.migrate(deepcopy(found.value), found.version)
    except Exception as error:
        raise PluginError(f"plugin {kind.plugin!r} could not migrate its state: {error}") from error
