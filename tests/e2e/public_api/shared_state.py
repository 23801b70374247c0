"""The state that calls share (`context.state`), against a model of it.

A call waits between what it reads and what it writes, so that calls side by side meet. What
succeeds is done to the model too, which takes no time: both must stay the same.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, MutableMapping
from copy import deepcopy
from typing import Any, Final

from agent_cli import Json, ToolError
from tests.e2e.public_api.findings import Findings

_KEYS: Final = ("a", "b")
State = MutableMapping[str, Json]


class SharedState:
    """The state of one agent's calls: `real` is what they use."""

    def __init__(self, dice: random.Random, findings: Findings) -> None:
        self.real: dict[str, Json] = {}
        self._model: dict[str, Json] = {}
        self._dice = dice
        self._findings = findings
        self._last = 0

    async def use(self, state: State) -> None:
        """Do some things with *state*; raises `ToolError` if another call was faster.

        A call knows what it has read, so more than one of them goes on with the same *state*.
        """
        for _ in range(self._dice.randint(1, 8)):
            await self._use_once(state)

    async def _use_once(self, state: State) -> None:
        name, use = self._dice.choice(list(self._uses().items()))
        try:
            await use(state)
        except ToolError:
            self._findings.count(self._findings.facts, f"state {name} refused")
            if name in ("clear", "update"):  # keys before the changed one are done
                self._model = deepcopy(self.real)
            raise
        finally:
            if self._model != self.real:
                self._findings.violate(f"state after {name}: {self.real}, not {self._model}")
                self._model = deepcopy(self.real)
        self._findings.count(self._findings.facts, f"state {name}")

    def _uses(self) -> dict[str, Callable[[State], Awaitable[None]]]:
        return {
            "count": self._count,
            "append": self._append,
            "write": self._write,
            "delete": self._delete,
            "pop": self._pop,
            "pop item": self._pop_item,
            "set default": self._set_default,
            "update": self._update,
            "clear": self._clear,
        }

    async def _wait(self) -> None:
        for _ in range(self._dice.randint(0, 3)):
            await asyncio.sleep(0)

    def _new(self) -> int:
        self._last += 1
        return self._last

    def _expect(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            self._findings.violate(f"state {what}: {found!r}, not {expected!r}")

    async def _count(self, state: State) -> None:
        seen: Any = state.get("count", 0)
        await self._wait()
        state["count"] = seen + 1
        before: Any = self._model.get("count", 0)
        self._model["count"] = before + 1

    async def _append(self, state: State) -> None:
        seen: Any = state.get("list", [])
        number = self._new()
        await self._wait()
        state["list"] = [*seen, number]
        before: Any = self._model.get("list", [])
        self._model["list"] = [*before, number]

    async def _write(self, state: State) -> None:
        key, number = self._dice.choice(_KEYS), self._new()
        seen = state.get(key)
        await self._wait()
        state[key] = number
        self._expect("written over", seen, self._model.get(key))
        self._model[key] = number

    async def _delete(self, state: State) -> None:
        key = self._dice.choice(_KEYS)
        seen = state.get(key)
        await self._wait()
        try:
            del state[key]
        except KeyError:
            self._expect("missing", self._model.get(key), None)
        else:
            self._expect("deleted", seen, self._model.pop(key, None))

    async def _pop(self, state: State) -> None:
        key = self._dice.choice([*_KEYS, "count"])
        seen = state.get(key)
        await self._wait()
        taken = state.pop(key, None)
        self._expect("popped", taken, self._model.pop(key, None))
        self._expect("popped as read", taken, None if taken is None else seen)

    async def _pop_item(self, state: State) -> None:
        await self._wait()
        try:
            key, value = state.popitem()
        except KeyError:
            self._expect("empty", self._model, {})
        else:
            self._expect("popped", value, self._model.pop(key, None))

    async def _set_default(self, state: State) -> None:
        key, number = self._dice.choice(_KEYS), self._new()
        await self._wait()
        found = state.setdefault(key, number)
        self._expect("default", found, self._model.setdefault(key, number))

    async def _update(self, state: State) -> None:
        written: dict[str, Json] = {key: self._new() for key in _KEYS}
        await self._wait()
        state.update(written)
        self._model.update(written)

    async def _clear(self, state: State) -> None:
        seen = dict(state)
        await self._wait()
        state.clear()
        kept = {key: value for key, value in self._model.items() if key in seen}
        self._expect("cleared", kept, {key: seen[key] for key in kept})
        self._model.clear()
