"""The line below the prompt: what the next message is asked of, and what this cost so far."""

from agent_cli.agent import Agent
from agent_cli.conversation import Conversation
from agent_cli.events import AgentEnd, AgentStart, Event, UsageChanged
from agent_cli.timeline import Usage


class Status:
    """Follows the agent; `text` is one line, never wrapped and never empty."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._model = ""
        self._window = 0
        self._context_tokens = 0
        self._total = Usage()
        self._conversation: Conversation | None = None
        self.refresh()

    def __call__(self, event: Event) -> None:
        """Take note of *event*."""
        match event:
            case UsageChanged(reply=reply, total=total):
                self._context_tokens = reply.prompt_tokens + reply.output_tokens
                self._total = total
            case AgentStart() | AgentEnd():
                self.refresh()
            case _:
                pass

    def refresh(self) -> None:
        """Look at the agent again: its model may be another one."""
        state = self._agent.state
        effort = f" {state.thinking_level}" if state.thinking_level else ""
        self._model = f"{state.model.id}{effort}" if state.model else "no model"
        self._window = state.model.context_window if state.model else 0
        if self._conversation is not self._agent.conversation:
            self._conversation = self._agent.conversation
            # What fills the window of another conversation is known with its next reply.
            self._context_tokens, self._total = 0, self._conversation.usage

    def text(self, mode: str, *, paused: bool, waiting_chars: int) -> str:
        """Return the line."""
        parts = [self._model, mode, self._context(), self._cost(), self._cache()]
        if paused:
            parts.insert(0, f"paused, {waiting_chars:,} characters held: Ctrl-Q goes on")
        return " · ".join(part for part in parts if part)

    def _context(self) -> str:
        if not self._context_tokens or not self._window:
            return ""
        share = self._context_tokens / self._window
        return f"context {share:.0%} ({self._context_tokens:,} tokens)"

    def _cost(self) -> str:
        cost = self._total.cost_microdollars
        return f"${cost / 1_000_000:.2f}" if cost else ""

    def _cache(self) -> str:
        prompt = self._total.prompt_tokens
        hits = self._total.cache_read_tokens
        return f"cache {hits / prompt:.0%}" if prompt and hits else ""
