"""The use of the model's context window by a conversation, and its reduction on request."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from agent_cli.app.plugins import TellHooks
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import EventSink
from agent_cli.contracts.messages import Message, UserMessage
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import Json, ReplyOutput, ToolOutput, UserOutput
from agent_cli.contracts.tooling import Tool
from agent_cli.contracts.wording import counted
from agent_cli.core.agent import Agent
from agent_cli.core.pins import pins
from agent_cli.core.projection import entries, messages, shown
from agent_cli.plugins.project_instructions import COME_TO, files_in
from agent_cli.policies.cache_watch import CACHE_LIFE_S, last_reply
from agent_cli.policies.compaction import Compaction
from agent_cli.policies.estimate import (
    CHARS_PER_TOKEN,
    estimate_fixed,
    estimate_parts,
    estimate_tokens,
    measured_tokens,
)

_NOTES: Final = "notes of the program"


class ContextWindow:
    """The size of an agent's next request, and the means to reduce it."""

    def __init__(
        self,
        agent: Agent,
        compaction: Compaction,
        *,
        model: Callable[[], Model],
        tools: Callable[[], Sequence[Tool]],
        publish: EventSink,
        at_start: Callable[[TellHooks], Sequence[str]],
    ) -> None:
        """Store the sources; nothing is measured yet.

        Args:
            agent: The agent whose conversation fills the window.
            compaction: Summarises older messages.
            model: Returns the model of the next request.
            tools: Returns the tools of the next request.
            publish: Receives the events of a compaction.
            at_start: Returns the instructions of a first request, and tells of each file.
        """
        self._at_start = at_start
        self._whys: dict[str, str] = {}
        self._agent = agent
        self._compaction = compaction
        self._model = model
        self._tools = tools
        self._publish = publish
        self._compacting = asyncio.Lock()

    def parts(self) -> Mapping[str, int]:
        """Return the estimated tokens of the next request by kind of content."""
        conversation = self._agent.conversation
        prepared = self._compaction.prepared(conversation)
        if prepared is None:
            own = (self._agent.state.system_prompt, *self._at_start(self.note_instructions))
            prepared = [*own], [*self._tools()]
        system, tools = prepared
        history = conversation.context()
        parts = estimate_parts(system[:1], [tool.spec for tool in tools], history)
        nested = _come_to(history)
        if nested and _NOTES in parts:
            parts = {**parts, _NOTES: max(0, parts[_NOTES] - sum(nested.values()))}
        return {**parts, **_context(system[1:]), **nested}

    def note_instructions(self, _event: str, _reason: str, about: Mapping[str, Json]) -> None:
        """Keep why the model is shown a file, from the input of an InstructionsLoaded hook."""
        self._whys[str(about["file_path"])] = _why(about)

    def notes(self) -> Sequence[str]:
        """Return sentences about instructions, and what is summarised, pinned and cached."""
        why = [f"{path}: {self._whys[path]}" for path in self.parts() if path in self._whys]
        return [*why, *self._about_cut(), *self._about_pins(), *self._about_cache()]

    def _about_cut(self) -> Iterator[str]:
        prompts = self._agent.conversation.prompts
        sent = {output.id for output in shown(prompts)}
        left_out = [
            out
            for out in entries(prompts)
            if out.id not in sent and isinstance(out, UserOutput | ReplyOutput | ToolOutput)
        ]
        if left_out:
            tokens = estimate_tokens(list(messages(left_out)))
            count = counted(len(left_out), "entry", "entries")
            reads = "recall reads them, " if self._compaction.can_recall else ""
            yield (
                f"{count} of the record (about {tokens:,} tokens) are summarized or left out:"
                f" {reads}/uncompact sends them again"
            )

    def _about_pins(self) -> Iterator[str]:
        if held := pins(self._agent.conversation):
            yield f"{counted(len(held), 'text')} pinned: /pin lists them"

    def _about_cache(self) -> Iterator[str]:
        _, last = last_reply(self._agent.conversation)
        if last is None:
            return
        cached = last.usage.cached_tokens
        if not cached:
            yield "nothing is cached: the server reported no cache"
            return
        if last.model != self._model().id:
            yield f"the cache of {last.model} ({cached:,} tokens) does not serve {self._model().id}"
            return
        left_s = CACHE_LIFE_S - (time.time() - last.at_ms / 1000)
        state = f"for {left_s:.0f} s more" if left_s > 0 else "no longer: its five minutes are over"
        yield f"{cached:,} tokens of the last request are cached, {state}"

    def tokens(self) -> int:
        """Return the tokens of the next request, counted by the API or else estimated."""
        return measured_tokens(self._agent.conversation) or sum(self.parts().values())

    async def compact(self, focus: str) -> None:
        """Summarise older messages now; events report the result.

        Raises:
            AgentCliError: There is nothing to compact, or compaction failed.
        """
        async with self._compacting:
            if not await self._compaction.compact_now(self._agent.next_turn(), focus=focus):
                raise AgentCliError("there is nothing to compact yet")

    async def until_compacted(self) -> None:
        """Return when no `compact` is going on."""
        async with self._compacting:
            pass

    def uncompact(self) -> None:
        """Restore the older messages that a summary or a message limit left out.

        Raises:
            AgentCliError: Nothing is left out.
        """
        if not self._agent.conversation.uncompact():
            raise AgentCliError("nothing is left out: the model is sent the whole conversation")


def _why(about: Mapping[str, Json]) -> str:
    """Return why a file is shown, from the input of an InstructionsLoaded hook."""
    trigger = about.get("trigger_file_path")
    match about["load_reason"]:
        case "session_start":
            return "read at each start"
        case "include":
            return f"named by @ in {about['parent_file_path']}"
        case "path_glob_match":
            return f"its paths name {trigger}, which a tool came to"
        case "compact":
            return "shown again after a compaction"
        case _:
            return f"a tool came to {trigger}"


def _come_to(history: Sequence[Message]) -> dict[str, int]:
    """Return the tokens of each instruction file that a message holds because a tool reached it."""
    texts = (message.text for message in history if isinstance(message, UserMessage))
    return {
        file: chars // CHARS_PER_TOKEN
        for text in texts
        if text.startswith(COME_TO)
        for file, chars in files_in(text).items()
    }


def _context(system: Sequence[str]) -> dict[str, int]:
    """Return the tokens of each instruction file, and of the other texts beside the prompt."""
    found: dict[str, int] = {}
    other = 0
    for text in system:
        files = files_in(text)
        for file, chars in files.items():
            found[file] = chars // CHARS_PER_TOKEN
        other += estimate_fixed([text], ()) - sum(files.values()) // CHARS_PER_TOKEN
    return {"facts and plugins": other, **found} if system else {}
