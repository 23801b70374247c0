"""The status line below the prompt: model, context and cost."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final

from agent_cli.contracts.events import (
    AgentEnd,
    AgentStart,
    Compacted,
    Event,
    MessageEnd,
    PromptOutput,
    UsageChanged,
)
from agent_cli.contracts.hosted_blocks import has_hosted
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.money import dollars
from agent_cli.contracts.timeline import CompactionOutput, Usage
from agent_cli.contracts.wording import share, short_count
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.repl.live.cells import row_width, shortened

_SEPARATOR: Final = " · "


class Status:
    """Follows the agent; `text` is one line, never too wide and never empty."""

    def __init__(self, agent: Agent, context_tokens: Callable[[], int] = lambda: 0) -> None:
        """*context_tokens* returns the size of a resumed conversation."""
        self._agent = agent
        self._count = context_tokens
        self._model = ""
        self._window = 0
        self._context_tokens = 0
        self._total = Usage()
        self._conversation: Conversation | None = None
        self.refresh()

    def __call__(self, event: Event) -> None:
        """Update from *event*."""
        match event:
            case MessageEnd(message=AssistantMessage(usage=used, content=content)) if (
                used.prompt_tokens and not has_hosted(content)  # the sum of the server's rounds
            ):
                self._context_tokens = used.prompt_tokens + used.output_tokens
            case Compacted(tokens_after=tokens):
                self._context_tokens = tokens
            case PromptOutput(output=CompactionOutput(first_kept_id=None)):  # rewound
                self._context_tokens = self._count()
            case UsageChanged(total=total):  # from any model call: a summary, a server's request
                self._total = total
            case AgentStart() | AgentEnd():
                self.refresh()
            case _:
                pass

    def refresh(self) -> None:
        """Update from the agent, whose model may have changed."""
        state = self._agent.state
        effort = f" {state.thinking_level}" if state.thinking_level else ""
        self._model = f"{state.model.id}{effort}" if state.model else "no model"
        self._window = state.model.context_window if state.model else 0
        if self._conversation is not self._agent.conversation:
            self._conversation = self._agent.conversation
            self._context_tokens = self._count() if self._conversation.prompts else 0
            self._total = self._conversation.usage

    def text(self, badges: Sequence[str], *, urgent: Sequence[str], columns: int) -> str:
        """Return the line; in a narrow window the least important parts are left out.

        Args:
            badges: Words of the program, the most important first, e.g. the permission mode.
            urgent: Text with priority over everything else, such as a paused display.
            columns: Maximum width in cells.
        """
        mode, *others = badges or ("",)
        ranked = [
            *((0, words) for words in urgent),
            *((2, self._model), (1, mode), *self._context(), (5, self._cost())),
            *((7, words) for words in others),
            (6, self._cache()),
        ]
        parts = [part for part in ranked if part[1]]
        while len(parts) > 1 and row_width(_joined(parts)) > columns:
            parts.remove(max(reversed(parts), key=itemgetter(0)))
        return shortened(_joined(parts), columns)

    def _context(self) -> Sequence[tuple[int, str]]:
        """Return the used share of the window, and the tokens, which may be left out."""
        if not self._context_tokens or not self._window:
            return ()
        percent = share(self._context_tokens / self._window)
        return (3, f"context {percent}"), (4, f"({short_count(self._context_tokens)} tokens)")

    def _cost(self) -> str:
        cost = self._total.cost_microdollars
        return dollars(cost, decimals=2) if cost else ""

    def _cache(self) -> str:
        prompt = self._total.prompt_tokens
        hits = self._total.cache_read_tokens
        return f"cache {hits / prompt:.0%}" if prompt and hits else ""


def _joined(parts: Sequence[tuple[int, str]]) -> str:
    """Return *parts* as one line; bracketed text belongs to the part before it."""
    return _SEPARATOR.join(words for _, words in parts).replace(f"{_SEPARATOR}(", " (")
