"""The agents at work as rows above the input: one can be selected, to show its work or stop it.

Imported before the first prompt: standard library and prompt_toolkit only.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from prompt_toolkit.filters import Condition, has_completions, is_searching
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent

from agent_cli.repl.live.paint import MARGIN, MARK, row_width, shortened
from agent_cli.system.sanitize import reveal

if TYPE_CHECKING:
    from agent_cli.contracts.agents import AgentInfo

_GAP: Final = " · "
_HINTS: Final = (
    "Esc stops this agent · Enter shows its work · ↑ ↓",
    "Esc stops it · Enter · ↑ ↓",
    "Esc stops it",
)
_HINTS_AT_END: Final = (
    "Esc leaves · Enter shows its work · ↑ ↓",
    "Esc leaves · Enter · ↑ ↓",
    "Esc leaves",
)
# The rows show seconds.
_REDRAWN_EVERY_S: Final = 0.5


class AgentRows:
    """A list that is open while a row is selected and the input is empty.

    The selection stays with its agent: when that ends, its row stays until the next key, so that
    a key meant for it never reaches another agent or the run.

    Attributes:
        agents: Returns the agents in the order they were started.
    """

    def __init__(
        self,
        is_free: Callable[[], bool],
        rows_max: Callable[[], int],
        columns: Callable[[], int],
        *,
        refresh: Callable[[], None],
    ) -> None:
        """Select nothing yet.

        Args:
            is_free: Returns whether the input is empty and no question is open.
            rows_max: Returns the maximum number of rows of the list.
            columns: Returns the width of the terminal.
            refresh: Redraws the rows.
        """
        self.agents: Callable[[], Sequence[AgentInfo]] = tuple
        self._is_free = is_free
        self._rows_max = rows_max
        self._columns = columns
        self._refresh = refresh
        self._number: int | None = None
        self._redrawing: asyncio.TimerHandle | None = None

    @property
    def is_any_working(self) -> bool:
        """Whether any agent is working."""
        return any(agent.is_running for agent in self.agents())

    @property
    def can_open(self) -> bool:
        """Whether a row can be selected now."""
        return self._is_free() and self.is_any_working

    @property
    def is_open(self) -> bool:
        """Whether a row is selected."""
        return self._number is not None and self._is_free()

    @property
    def selected(self) -> "AgentInfo | None":
        """The selected agent."""
        listed = self.listed()
        return next((agent for agent in listed if agent.number == self._number), None)

    def listed(self) -> Sequence["AgentInfo"]:
        """Return the agents with a row: working agents, and the selected agent."""
        if not self.is_open:
            return ()
        return [each for each in self.agents() if each.is_running or each.number == self._number]

    def select(self, rows: int) -> None:
        """Move the selection by *rows*; select the first agent if none is; above it, none."""
        listed = [each.number for each in self.listed()]
        if self._number in listed:
            index = listed.index(self._number) + rows
            number = listed[min(index, len(listed) - 1)] if index >= 0 else None
        else:
            number = next((each.number for each in self.agents() if each.is_running), None)
        self._number = number
        self._tick()

    def close(self) -> None:
        """Select nothing."""
        self._number = None
        self._refresh()

    def key_pressed(self) -> None:
        """Drop a selection that something else has hidden since the last key."""
        if not self.is_open:
            self._number = None

    def rows(self) -> list[tuple[bool, str]]:
        """Return a row for each agent, with whether it is selected, and a row about the keys.

        If not all fit, the rows around the selected one are returned.
        """
        listed, width = self.listed(), max(self._columns() - 1, 1)
        if not listed:
            return []
        rows = [(each.number == self._number, self._row(each, width)) for each in listed]
        index = next((at for at, (is_selected, _row) in enumerate(rows) if is_selected), 0)
        count = max(min(self._rows_max(), len(rows)), 1)
        first = max(0, min(index - count // 2, len(rows) - count))
        has_ended = any(each.number == self._number and not each.is_running for each in listed)
        hints = (f"{MARGIN}{hint}" for hint in (_HINTS_AT_END if has_ended else _HINTS))
        hint = next((hint for hint in hints if row_width(hint) <= width), "")
        return [*rows[first : first + count], (False, hint)]

    def _row(self, agent: "AgentInfo", width: int) -> str:
        """Return name and state; a narrow window has room for half of each."""
        begin = f"{MARK if agent.number == self._number else MARGIN}{agent.number} "
        title, state = reveal(agent.title), reveal(agent.state)
        room = width - row_width(begin) - len(_GAP)
        state = shortened(state, max(room - row_width(title), room // 2, 1))
        title = shortened(title, max(room - row_width(state), 1))
        return shortened(f"{begin}{title}{_GAP}{state}", width)

    def _tick(self) -> None:
        """Redraw, and again soon while the list is open."""
        if self._redrawing:
            self._redrawing.cancel()
        self._redrawing = None
        self._refresh()
        if self.is_open:
            loop = asyncio.get_running_loop()
            self._redrawing = loop.call_later(_REDRAWN_EVERY_S, self._tick)


def bind_agent_keys(keys: KeyBindings, rows: AgentRows, submit: Callable[[str], object]) -> None:
    """Bind the keys of a selected agent, which *submit* commands; bind them last."""
    selectable = Condition(lambda: rows.can_open)
    selected = Condition(lambda: rows.is_open)

    @keys.add("down", filter=selectable & ~has_completions & ~is_searching)
    @keys.add("down", filter=selected)
    @keys.add("c-n", filter=selected)
    def down(_event: KeyPressEvent) -> None:
        rows.select(1)

    @keys.add("up", filter=selected)
    @keys.add("c-p", filter=selected)
    def up(_event: KeyPressEvent) -> None:
        rows.select(-1)

    @keys.add("enter", filter=selected)
    @keys.add("c-o", filter=selected)
    def show_work(_event: KeyPressEvent) -> None:
        if agent := rows.selected:
            submit(f"/agents {agent.number}")

    @keys.add("escape", filter=selected)
    def stop(_event: KeyPressEvent) -> None:
        agent = rows.selected
        if agent is None or not agent.is_running:
            rows.close()
        elif not agent.is_stopping:
            submit(f"/agents stop {agent.number}")
