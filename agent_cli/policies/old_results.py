"""Leave old, large results out of the request while that saves money; a line says where they are.

Taking something out of the middle makes the model read all behind it anew, at a price that the
smaller requests rarely earn back. After a pause the cache is gone anyway: whatever is left out then
is not paid for again, and the change itself costs nothing.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from agent_cli.contracts.events import Notice
from agent_cli.contracts.messages import LEFT_OUT, CustomMessage
from agent_cli.contracts.provider import Price
from agent_cli.contracts.timeline import (
    CustomOutput,
    Output,
    Pending,
    ReplyOutput,
    ToolOutput,
    Usage,
)
from agent_cli.contracts.wording import counted, dollars
from agent_cli.core.projection import numbered, shown
from agent_cli.core.turn import Turn
from agent_cli.policies.cache_watch import CACHE_LIFE_S
from agent_cli.policies.estimate import content_tokens

KEPT: Final = 10
"""The newest results stay, however large."""
LARGE_TOKENS: Final = 1_000
LEAST_TOKENS: Final = 10_000


class OldResults:
    """A `prepare` contributor."""

    def __init__(
        self,
        price: Price,
        *,
        used_s: Callable[[], float] = lambda: 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Weigh the prices of *price*.

        Args:
            price: Prices tokens.
            used_s: Returns when the cache was last read, as far as this program knows.
            clock: Returns the time in seconds.
        """
        self._price = price
        self._used_s = used_s
        self._clock = clock

    def __call__(self, turn: Turn) -> None:
        """Leave out old results if the cache is gone and that saves money; tell the user."""
        conversation = turn.conversation
        if conversation.open_calls() or not self._is_cold(turn):
            return
        found = _old(shown(conversation.prompts))
        tokens = sum(map(_tokens, found))
        saved = self._price(turn.model.id, Usage(cache_write_5m_tokens=tokens))
        if tokens < LEAST_TOKENS or not saved:
            return
        ids = {call.id for call in found}
        numbers = {out.id: at for at, out in numbered(conversation.prompts) if out.id in ids}
        conversation.note(CustomMessage(LEFT_OUT, {**numbers}))
        turn.emit(
            Notice(
                "info",
                f"{counted(len(found), 'old tool result')} left out (about {tokens:,} tokens,"
                f" {dollars(saved)} with this request): the cache was gone. The model reads them"
                " with recall; history.leave_out_old_results = false keeps them",
            )
        )

    def _is_cold(self, turn: Turn) -> bool:
        prompts = reversed(turn.conversation.prompts)
        outputs = (output for prompt in prompts for output in reversed(prompt.output))
        last = next((output for output in outputs if isinstance(output, ReplyOutput)), None)
        used_s = max(last.at_ms / 1_000, self._used_s()) if last else self._clock()
        return self._clock() - used_s > CACHE_LIFE_S


def _old(outputs: Sequence[Output]) -> list[ToolOutput]:
    calls = [each for each in outputs if isinstance(each, ToolOutput)]
    gone = {
        entry
        for each in outputs
        if isinstance(each, CustomOutput) and each.name == LEFT_OUT and isinstance(each.data, dict)
        for entry in each.data
    }
    return [call for call in calls[:-KEPT] if call.id not in gone and _tokens(call) > LARGE_TOKENS]


def _tokens(call: ToolOutput) -> int:
    """Return the tokens of a result's text and of its PDFs, which can be read again.

    An image does not count: what it showed may be gone.
    """
    if isinstance(call.result, Pending):
        return 0
    return content_tokens(block for block in call.result.content if block["type"] != "image")
