"""The records of a session's file. `History` (history.py) reads them back.

    session    the first record: format, id, workspace, user, time, program, parent
    prompt     a prompt started
    output     an entry was put at an index of a prompt; with `replaced`, replacing the same id
    state      a prompt waits, continues or is completed
    held       the reserved cost of calls of unknown usage changed; `usage` has it
    dropped    incomplete entries were removed (history.py)
    rewound    a prompt and everything after it were removed
    renamed    the user named the session

Each has `at`, Unix ms. `usage`, where present, is the prompt's new total.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from agent_cli.contracts.errors import SessionError
from agent_cli.contracts.events import (
    Event,
    PromptCompleted,
    PromptOutput,
    PromptStarted,
    PromptStateChanged,
    UsageHeld,
)
from agent_cli.contracts.timeline import Output, Pending, Prompt, ToolOutput
from agent_cli.session_store.codec import JsonObject, output_to_json, prompt_to_json, text_in
from agent_cli.system.records import dataclass
from agent_cli.version import __version__

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a session. `parent` is the session it was forked from, behind `parent_at`.

    For a subagent, `agent` is its name, `parent` the session that started it, and `parent_at` the
    call that did.
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
        """Return the header for *record*; the inverse of `to_record`.

        Raises:
            SessionError: A newer version of this program wrote it.
        """
        if record["format"] > FORMAT:
            raise SessionError(
                f"session {record['id']} was written by {record['program']}, which knows more"
                " than this version: update agent-cli to open it"
            )
        texts = [text_in(record[name]) for name in ("id", "workspace", "user_id", "program")]
        id, workspace, user_id, program = texts
        origin = (record["parent"], record["parent_at"], record.get("agent"))
        parent, parent_at, agent = (None if each is None else text_in(each) for each in origin)
        return cls(
            id=id,
            workspace=workspace,
            created_at_ms=int(record["at"]),
            user_id=user_id,
            program=program,
            parent=parent,
            parent_at=parent_at,
            agent=agent,
        )


def record_of(event: Event) -> tuple[JsonObject, bool] | None:
    """Return the record of *event*, and whether it must be synced to disk at once.

    That is due before an external effect: a tool starts, a person is asked or has decided, control
    returns to the user. A result can wait for the next effect: the files that its tool wrote are no
    safer. So can the start of a call that only reads. None when the event changes no conversation.
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
            return record, _is_open_call(event.output) and event.replaced and not event.only_reads
        case PromptStateChanged():
            return _state(event.prompt_id, event.state), True
        case PromptCompleted():
            return _state(event.prompt_id, "completed"), True
        case UsageHeld():
            return {"kind": "held", "prompt": event.prompt_id}, False
        case _:
            return None


def _is_open_call(output: Output) -> bool:
    return isinstance(output, ToolOutput) and isinstance(output.result, Pending)


def dropped(prompt_id: str, ids: Sequence[str]) -> JsonObject:
    """Return the record that removes entries."""
    return {"kind": "dropped", "prompt": prompt_id, "outputs": [*ids]}


def rewound(prompt_id: str) -> JsonObject:
    """Return the record that removes a prompt and everything after it."""
    return {"kind": "rewound", "prompt": prompt_id}


RENAMED: Final = b'"renamed"'  # in the file of each session that has a name


def renamed(name: str) -> JsonObject:
    """Return the record that names the session."""
    return {"kind": "renamed", "name": name}


def retold(prompts: Iterable[Prompt]) -> Iterator[Event]:
    """Yield events that would produce *prompts* as they are now."""
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
