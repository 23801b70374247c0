"""What a session's file says, record by record. `History` (history.py) reads them again.

    session    first in the file: format, id, workspace, who, when, which program, which parent
    prompt     a prompt started
    output     an entry was put at an index of a prompt; with `replaced`, in place of its namesake
    state      a prompt waits, runs again or is completed
    held       what calls of unknown usage may cost changed; `usage` has it
    dropped    entries that never counted were taken out (repair.py)
    rewound    everything from a prompt on was taken back

Each has `at`, Unix ms. Where `usage` stands it is the prompt's total from then on.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agent_cli.contracts.cost_events import UsageHeld
from agent_cli.contracts.errors import SessionError
from agent_cli.contracts.events import (
    Event,
    PromptCompleted,
    PromptOutput,
    PromptStarted,
    PromptStateChanged,
)
from agent_cli.contracts.timeline import Prompt, ToolOutput
from agent_cli.session_store.codec import JsonObject, output_to_json, prompt_to_json
from agent_cli.version import __version__

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Header:
    """What a session is. `parent` is the session it was forked from; `parent_at`, behind what.

    Of an agent that worked for another, `agent` is its name, `parent` whose session that was, and
    `parent_at` the call that started it.
    """

    id: str
    workspace: str
    created_at_ms: int
    user_id: str = "local"
    program: str = f"agent-cli {__version__}"
    parent: str | None = None
    parent_at: str | None = None
    agent: str | None = None

    def to_record(self) -> JsonObject:
        """Return the first record of the session's file."""
        return {
            "kind": "session",
            "format": FORMAT,
            "id": self.id,
            "workspace": self.workspace,
            "at": self.created_at_ms,
            "user_id": self.user_id,
            "program": self.program,
            "parent": self.parent,
            "parent_at": self.parent_at,
            **({"agent": self.agent} if self.agent else {}),
        }

    @classmethod
    def of_record(cls, record: JsonObject) -> "Header":
        """Return the header *record* was made of.

        Raises:
            SessionError: A newer version of this program wrote it.
        """
        if record["format"] > FORMAT:
            raise SessionError(
                f"session {record['id']} was written by {record['program']}, which knows more"
                " than this version: update agent-cli to open it"
            )
        return cls(
            record["id"],
            record["workspace"],
            record["at"],
            record["user_id"],
            record["program"],
            record["parent"],
            record["parent_at"],
            record.get("agent"),
        )


def record_of(event: Event) -> tuple[JsonObject, bool] | None:
    """Return what *event* adds to the file, and whether it must be on the disk at once.

    It must where something outside follows: a tool starts, a person is asked, the user goes on.
    None when the event changes no conversation.
    """
    match event:
        case PromptStarted():
            return {"kind": "prompt", **prompt_to_json(event.prompt)}, False
        case PromptOutput():
            record = {
                "kind": "output",
                "prompt": event.prompt_id,
                "index": event.index,
                "output": output_to_json(event.output),
            }
            if event.replaced:
                record["replaced"] = True
            return record, event.replaced and isinstance(event.output, ToolOutput)
        case PromptStateChanged():
            return _state(event.prompt_id, event.state), True
        case PromptCompleted():
            return _state(event.prompt_id, "completed"), True
        case UsageHeld():
            return {"kind": "held", "prompt": event.prompt_id}, False
        case _:
            return None


def dropped(prompt_id: str, ids: Sequence[str]) -> JsonObject:
    """Return the record that takes entries out."""
    return {"kind": "dropped", "prompt": prompt_id, "outputs": [*ids]}


def rewound(prompt_id: str) -> JsonObject:
    """Return the record that takes a prompt and everything after it back."""
    return {"kind": "rewound", "prompt": prompt_id}


def retold(prompts: Iterable[Prompt]) -> Iterator[Event]:
    """Yield the events that would have made *prompts* as they are now."""
    for prompt in prompts:
        yield PromptStarted(prompt)
        for index, output in enumerate(prompt.output):
            yield PromptOutput(prompt.id, index, output)
        match prompt.state:
            case "completed":
                yield PromptCompleted(prompt.id)
            case "waiting_for_approval":
                yield PromptStateChanged(prompt.id, prompt.state)
            case _:
                pass


def _state(prompt_id: str, state: str) -> JsonObject:
    return {"kind": "state", "prompt": prompt_id, "state": state}
