"""The rows and JSON of a session list."""

from datetime import datetime
from pathlib import Path

from agent_cli.contracts.errors import SessionError
from agent_cli.contracts.listings import SessionInfo
from agent_cli.contracts.messages import typed_in
from agent_cli.contracts.timeline import Json, Prompt, UserOutput
from agent_cli.contracts.wording import dollars, one_line
from agent_cli.core.projection import entries, usage_of
from agent_cli.session_store.history import is_unused, read_mended
from agent_cli.session_store.log_file import damaged
from agent_cli.session_store.records import Header
from agent_cli.system.paths import unix_ms
from agent_cli.system.sanitize import clean

_TITLE_CHARS_MAX = 80


def describe(path: Path) -> SessionInfo:
    """Return the list entry of the session at *path*."""
    updated_at_ms = unix_ms(path.stat().st_mtime_ns)
    try:
        history = read_mended(path)
    except SessionError as error:
        return SessionInfo(path.stem, path, updated_at_ms, problem=str(error))
    shown = [prompt for prompt in history.prompts if prompt.visible]
    header = history.header or Header(path.stem, workspace="", created_at_ms=0)
    return SessionInfo(
        id=path.stem,
        path=path,
        updated_at_ms=updated_at_ms,
        title=as_title(history.name) or _first_text(shown),
        name=as_title(history.name),
        workspace=header.workspace,
        created_at_ms=header.created_at_ms,
        prompts=len(shown),
        usage=usage_of(history.prompts, history.taken_back),
        waiting=any(prompt.state == "waiting_for_approval" for prompt in history.prompts),
        problem=history.damage.fault if history.damage else "",
        remedy=history.damage.remedy(path.stem) if history.damage else "",
        agent=header.agent or "",
        parent_call=header.parent_at or "",
        is_unused=is_unused(path),
    )


def damage(info: SessionInfo) -> str:
    """Return the sentence about the damage of a session; "" if it is not damaged."""
    return damaged(info.id, info.problem, info.remedy) if info.remedy else ""


COLUMNS = ("id", "last used", "prompts", "cost", "workspace", "title", "state")


def row(info: SessionInfo) -> tuple[str, ...]:
    """Return the row of a session, a cell for each of `COLUMNS`; times are local."""
    cost = info.usage.cost_microdollars
    if info.program:
        return info.id, last_used(info), "", "", info.workspace, info.title, f"of {info.program}"
    return (
        info.id,
        last_used(info),
        str(info.prompts),
        "unknown" if cost is None else dollars(cost, decimals=2),
        info.workspace,
        info.title,
        f"{info.state}: {info.problem}" if info.problem else info.state,
    )


def last_used(info: SessionInfo) -> str:
    """Return the time of a session's last use, in local time."""
    return datetime.fromtimestamp(info.updated_at_ms / 1000).strftime("%Y-%m-%d %H:%M")


def as_json(info: SessionInfo) -> dict[str, Json]:
    """Return the list entry of a session as JSON; times are Unix ms."""
    return {
        "id": info.id,
        "path": str(info.path),
        "created_at_ms": info.created_at_ms,
        "updated_at_ms": info.updated_at_ms,
        "workspace": info.workspace,
        "title": info.title,
        "prompts": info.prompts,
        "cost_microdollars": info.usage.cost_microdollars,
        "waiting": info.waiting,
        "problem": info.problem,
        "remedy": info.remedy,
        **({"program": info.program} if info.program else {}),
    }


def as_title(text: str) -> str:
    """Return *text* as a title: one line without control codes, not too long."""
    return one_line(clean(text), _TITLE_CHARS_MAX)


def _first_text(prompts: list[Prompt]) -> str:
    typed = (out for out in entries(prompts) if isinstance(out, UserOutput) and out.is_typed)
    return next(filter(None, (as_title(typed_in(out.content)) for out in typed)), "")
