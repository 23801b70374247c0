"""One call's view of the state that tools share, so that concurrent calls lose no write."""

from collections.abc import Iterator, MutableMapping
from copy import deepcopy
from typing import Any, Final, TypeAlias

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.frozen import same_json
from agent_cli.contracts.timeline import Json


class _Absent:
    """The value of a missing key."""


_ABSENT: Final = _Absent()
_Value: TypeAlias = "Json | _Absent"


class CallState(MutableMapping[str, Json]):
    """The shared state as one call reads and writes it.

    A write is merged as the difference from the value the call read before: calls that change
    different keys of one value, or append to the same list, keep all changes. Writing or deleting a
    key that another call has changed since raises `ToolError` instead of undoing that change. A
    value that was not read before is written, or deleted, as it is.
    """

    def __init__(self, shared: MutableMapping[str, Json]) -> None:
        self._shared = shared
        self._seen: dict[str, _Value] = {}

    def __getitem__(self, name: str) -> Json:
        self._seen[name] = _ABSENT
        value = self._shared[name]
        self._seen[name] = deepcopy(value)
        return value

    def __contains__(self, name: object) -> bool:
        """Look for *name*; a later write is still compared with the value that was read before."""
        return name in self._shared if name in self._seen else super().__contains__(name)

    def __setitem__(self, name: str, value: Json) -> None:
        """Write *value*; raises `ToolError` if another call changed it since this one read it."""
        now: _Value = self._shared.get(name) if name in self._shared else _ABSENT
        merged = _merged(self._seen.get(name, now), value, now, name)
        if isinstance(merged, _Absent):
            raise _changed(name)  # deleted meanwhile, and *value* is what was read
        self._shared[name] = merged
        self._seen[name] = deepcopy(merged)

    def __delitem__(self, name: str) -> None:
        """Delete the value.

        Raises:
            KeyError: There is none.
            ToolError: Another call changed it since this one read it.
        """
        now = self._shared[name]
        if not same_json(self._seen.get(name, now), now):
            raise _changed(name)
        del self._shared[name]
        self._seen[name] = _ABSENT

    def pop(self, name: str, default: Any = _ABSENT) -> Any:
        """Delete a value as `del` does, and return it, or *default* if there is none.

        `MutableMapping.pop` would read the value first, and so delete what another call wrote.
        """
        if name not in self._shared:
            return self[name] if default is _ABSENT else self.get(name, default)
        value = self._shared[name]
        del self[name]
        return value

    def popitem(self) -> tuple[str, Json]:
        """Delete a value as `del` does, and return key and value; `KeyError` if there is none."""
        if not self._shared:
            raise KeyError("the state is empty")
        name = next(iter(self))
        return name, self.pop(name)

    def clear(self) -> None:
        """Delete every value as `del` does; `MutableMapping.clear` would read each first."""
        for name in tuple(self._shared):
            del self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shared)

    def __len__(self) -> int:
        return len(self._shared)


def _merged(seen: _Value, written: _Value, now: _Value, path: str) -> _Value:
    """Return *now* with the changes from *seen* to *written* applied."""
    # A value that the call read and changed in place is the shared one already.
    in_place = isinstance(written, dict | list) and written is now
    if in_place or same_json(written, seen):
        return now
    if same_json(now, seen):
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
        kept = seen if isinstance(seen, list) else []
        start = len(kept)
        if same_json(written[:start], kept) and same_json(now[:start], kept):
            return [*now, *written[start:]]
    # A number may be a counter: when two calls raise it by one, one must fail.
    is_number = isinstance(written, int | float) and not isinstance(written, bool)
    if same_json(now, written) and not is_number:
        return now
    raise _changed(path)


def _changed(path: str) -> ToolError:
    return ToolError(
        f"The state {path!r} was changed by another call that ran beside this one. Call again."
    )
