"""The cost of a session since a moment, from the running totals in its records."""

from typing import TYPE_CHECKING

from agent_cli.contracts.timeline import Usage
from agent_cli.session_store.codec import usage_from_json
from agent_cli.session_store.log_file import read_log

if TYPE_CHECKING:
    from agent_cli.contracts.sessions import SessionInfo


def cost_since(info: "SessionInfo", at_ms: int) -> int:
    """Return the micro-dollars, reserved ones included, that a session cost from *at_ms* on.

    What was reserved before counts: its call may have ended since.
    """
    before = 0 if info.created_at_ms >= at_ms else _cost_before(info, at_ms)
    return max((info.usage.cost_microdollars or 0) + info.usage.held_microdollars - before, 0)


def _cost_before(info: "SessionInfo", at_ms: int) -> int:
    totals: dict[str, Usage] = {}
    for record in read_log(info.path).records:
        if "usage" in record and int(record.get("at", 0)) < at_ms:
            prompt = str(record.get("prompt") or record.get("id"))
            totals[prompt] = usage_from_json(record["usage"])
    return sum(usage.cost_microdollars or 0 for usage in totals.values())
