"""One call's view of the state that tools share, so that concurrent calls lose no write."""

from collections.abc import Iterator, MutableMapping
from copy import deepcopy
from typing import Final, TypeAlias

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.timeline import Json


class _Absent:
    """The value of a missing key."""


_ABSENT: Final = _Absent()
_Value: TypeAlias = "Json | _Absent"


class CallState(MutableMapping[str, Json]):
    """The shared state as one call reads and writes it.

    A write is merged as the difference from the value the call read before: calls that change
    different keys of one value, or append to the same list, keep all changes. A write to a key that
    another call has changed since raises `ToolError` instead of undoing that change. A value that
    was not read before is written as it is.
    """

    def __init__(self, shared: MutableMapping[str, Json]) -> None:
        self._shared = shared
        self._seen: dict[str, _Value] = {}

    def __getitem__(self, name: str) -> Json:
        self._seen[name] = _ABSENT
        value = self._shared[name]
        self._seen[name] = deepcopy(value)
        return value

    def __setitem__(self, name: str, value: Json) -> None:
        """Write *value*.

        Raises:
            ToolError: Another call changed the same key since this one read it.
        """
        now: _Value = self._shared.get(name) if name in self._shared else _ABSENT
        merged = _merged(self._seen.get(name, now), value, now, name)
        assert not isinstance(merged, _Absent)
        self._shared[name] = merged
        self._seen[name] = deepcopy(merged)

    def __delitem__(self, name: str) -> None:
        del self._shared[name]
        self._seen[name] = _ABSENT

    def __iter__(self) -> Iterator[str]:
        return iter(self._shared)

    def __len__(self) -> int:
        return len(self._shared)


def _is_number(value: _Value) -> bool:
    """Return whether *value* may be a counter: when two calls raise it by one, one must fail."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _merged(seen: _Value, written: _Value, now: _Value, path: str) -> _Value:
    """Return *now* with the changes from *seen* to *written* applied."""
    if written == seen:
        return now
    if now == seen:
        return written
    if isinstance(written, dict) and isinstance(now, dict) and isinstance(seen, dict | _Absent):
        before = seen if isinstance(seen, dict) else {}
        merged = {
            key: _merged(
                before.get(key, _ABSENT),
                written.get(key, _ABSENT),
                now.get(key, _ABSENT),
                f"{path}.{key}",
            )
            for key in {**now, **written}
        }
        return {key: value for key, value in merged.items() if not isinstance(value, _Absent)}
    if isinstance(written, list) and isinstance(now, list) and isinstance(seen, list | _Absent):
        start = len(seen) if isinstance(seen, list) else 0
        if written[:start] == now[:start] == (seen if isinstance(seen, list) else []):
            return [*now, *written[start:]]
    if now == written and not _is_number(written):
        return now
    raise ToolError(
        f"The state {path!r} was changed by another call that ran beside this one. Call again."
    )
