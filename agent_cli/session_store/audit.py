"""Who was asked about which call, why, when, and what was decided: read from the record alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agent_cli.session_store.codec import JsonObject


@dataclass(frozen=True, slots=True)
class Question:
    """A call a person was asked about. `decision` is None while nobody has answered."""

    tool_call_id: str
    tool: str
    user_id: str
    reason: str
    asked_at_ms: int
    decision: str | None = None
    decided_at_ms: int | None = None


def questions(records: Iterable[JsonObject]) -> Sequence[Question]:
    """Return every question of a session, in the order they were asked; rewound ones too."""
    users: dict[str, str] = {}
    found: dict[str, Question] = {}
    for record in records:
        if record["kind"] == "prompt":
            users[record["id"]] = record["user_id"]
        elif record["kind"] == "output" and record["output"]["kind"] == "tool":
            call = record["output"]
            asked = found.get(call["id"])
            if call["result"].get("why") == "approval":
                # A call that is held again after a restart was asked about the first time.
                found[call["id"]] = asked or Question(
                    call["block"]["id"],
                    call["block"]["name"],
                    users[record["prompt"]],
                    call["result"]["reason"],
                    record["at"],
                )
            elif asked and call["decision"] and asked.decision is None:
                found[call["id"]] = replace(
                    asked, decision=call["decision"], decided_at_ms=call["decided_at_ms"]
                )
    return list(found.values())
