"""Export a session as Markdown, one self-contained HTML file, JSON or ATIF.

Secrets are redacted here only: the record itself must replay exactly.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final, Literal, TypeAlias

from agent_cli.contracts.errors import SessionError
from agent_cli.contracts.messages import beside_typed, typed_in
from agent_cli.contracts.timeline import (
    BlockOutput,
    DiscardedOutput,
    Json,
    Output,
    ReplyOutput,
    TextOutput,
    ThinkingOutput,
    ToolOutput,
    Usage,
    UserOutput,
)
from agent_cli.contracts.wording import in_usd
from agent_cli.core.projection import entries, usage_of
from agent_cli.session_store.codec import output_to_json, prompt_to_json, usage_fields
from agent_cli.session_store.history import History
from agent_cli.session_store.transcripts import (
    call_line,
    content_text,
    entry_text,
    result_line,
    result_text,
    with_joined_text,
)
from agent_cli.system.sanitize import clean
from agent_cli.system.shapes import is_object, is_sequence
from agent_cli.version import __version__

Format: TypeAlias = Literal["md", "html", "json", "atif"]
Redact: TypeAlias = Callable[[str], str]
_Kind: TypeAlias = Literal["you", "agent", "call", "note"]
_BACKTICKS = re.compile(r"`{3,}")
# A note stands below whoever spoke last.
_HEADINGS: Final[Mapping[_Kind, str]] = {"you": "## You", "agent": "## Agent", "call": "## Agent"}


def export(history: History, to: Format, *, redact: Redact, agents: Sequence[History] = ()) -> str:
    """Return the session as text of the given format.

    Args:
        history: The content of the session.
        to: "json" has everything, hidden prompts too; "atif" is for programs that read
            trajectories; the other formats are for people.
        redact: Removes secrets from a string; called for every string.
        agents: The sessions of its subagents, which "json" and "atif" include.
    """
    match to:
        case "json":
            document = _document(history)
            if agents:
                document["agents"] = [_document(agent) for agent in agents]
            shown = _redacted(document, redact)
            return json.dumps(shown, indent=2, ensure_ascii=True, default=str) + "\n"
        case "atif":
            shown = _redacted(trajectory(history, agents), redact)
            return json.dumps(shown, indent=2, ensure_ascii=True) + "\n"
        case "md":
            return "\n\n".join(_markdown(_visible(history), redact)) + "\n"
        case "html":
            return _html(history, redact)


def write_new(path: Path, text: str) -> None:
    """Write *text* to *path* in place of an earlier export, or of a link to another place.

    Raises:
        SessionError: It cannot be written.
    """
    try:
        path.unlink(missing_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise SessionError(f"{path} cannot be written: {error.strerror}") from error


def _document(history: History) -> dict[str, object]:
    """Return the session as one object; the conversation refers to its prompts by their ids."""
    header = history.header
    return {
        "conversation": {
            "id": header.id if header else None,
            "user_id": header.user_id if header else None,
            "workspace": header.workspace if header else None,
            "created_at_ms": header.created_at_ms if header else None,
            "parent": header.parent if header else None,
            **({"agent": header.agent} if header and header.agent else {}),
            "prompts": [prompt.id for prompt in history.prompts],
        },
        "prompts": {
            prompt.id: {
                **prompt_to_json(prompt),
                "state": prompt.state,
                **usage_fields(prompt.usage),
                "output": [output_to_json(output) for output in prompt.output],
            }
            for prompt in history.prompts
        },
    }


def _redacted(value: object, redact: Redact) -> object:
    if isinstance(value, str):
        return redact(value)
    if is_sequence(value):
        return [_redacted(part, redact) for part in value]
    if is_object(value):
        return {key: _redacted(part, redact) for key, part in value.items()}
    return value


def _visible(history: History) -> Iterator[Output]:
    return with_joined_text(entries([prompt for prompt in history.prompts if prompt.visible]))


def _parts(outputs: Iterable[Output], redact: Redact) -> Iterator[tuple[_Kind, str]]:
    """Yield the text of each entry, but no empty notes."""
    for kind, text in (part for output in outputs for part in _texts(output)):
        # Cleaned first: a secret interrupted by an escape sequence would not be recognised.
        shown = redact(clean(text)).strip("\n")
        if shown or kind != "note":
            yield kind, shown


def _texts(output: Output) -> Iterator[tuple[_Kind, str]]:
    """Yield the texts of an entry; what goes with a message, such as a file, is a note behind it.

    That is not the user's text: as Markdown a stranger's file would have links and images.
    """
    match output:
        case UserOutput() if output.is_typed:
            yield "you", typed_in(output.content)
            yield "note", content_text(beside_typed(output.content))
        case TextOutput():
            yield "agent", str(output.block.get("text", ""))
        case ToolOutput():
            result = f"{result_line(output)}\n{result_text(output)}"
            yield "call", f"{call_line(output)}: {result}".rstrip()
        case _:
            yield "note", entry_text(output)


def _markdown(outputs: Iterable[Output], redact: Redact) -> Iterator[str]:
    speaker = ""
    for kind, text in _parts(outputs, redact):
        heading = _HEADINGS.get(kind, speaker)
        if kind == "you" or heading != speaker:
            yield heading
        speaker = heading
        yield _fenced(text) if kind in ("call", "note") else text


def _fenced(text: str) -> str:
    """Return *text* as a code block whose fence is longer than any in it."""
    longest = max((len(found) for found in _BACKTICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def _html(history: History, redact: Redact) -> str:
    """Fill in the page; every value is escaped, and the page loads nothing."""
    page = Template((files("agent_cli.session_store") / "page.html").read_text(encoding="utf-8"))
    title = f"Session {history.header.id}" if history.header else "Session"
    body = "\n".join(_articles(_visible(history), redact))
    return page.substitute(title=escape(title), body=body)


def _articles(outputs: Iterable[Output], redact: Redact) -> Iterator[str]:
    for kind, text in _parts(outputs, redact):
        if kind == "call":
            head, _, rest = map(escape, text.partition("\n"))
            yield f"<details><summary>{head}</summary><pre>{rest}</pre></details>"
        else:
            yield f'<article class="{kind}">{escape(text)}</article>'


# A session as an ATIF trajectory, version 1.8: the format that Harbor and its tools read.
#
# Every entry is a step or part of one: a message of the user, or a reply with its calls and their
# results. Subagents are trajectories of their own, referenced by the result of the call that
# started them.

SCHEMA_VERSION: Final = "ATIF-v1.8"
_Object = dict[str, Json]


def trajectory(history: History, agents: Sequence[History] = ()) -> dict[str, Json]:
    """Return the session as one trajectory, with the trajectories of its subagents *agents*."""
    header = history.header
    started = {
        agent.header.parent_at: agent.header.id
        for agent in agents
        if agent.header and agent.header.parent_at
    }
    steps = list(_steps(list(entries(history.prompts)), started))
    for number, step in enumerate(steps, start=1):
        step["step_id"] = number
    session_id = header.id if header else "unknown"
    shown: _Object = {
        "schema_version": SCHEMA_VERSION,
        "session_id": session_id,
        "trajectory_id": session_id,
        "agent": {
            "name": "agent-cli",
            "version": header.program.removeprefix("agent-cli ") if header else __version__,
            **({"model_name": history.prompts[0].model} if history.prompts else {}),
            **({"extra": {"agent": header.agent}} if header and header.agent else {}),
        },
        "steps": [{"step_id": step["step_id"], **step} for step in steps],
        "final_metrics": _final_metrics(usage_of(history.prompts, history.taken_back), len(steps)),
    }
    if agents:
        shown["subagent_trajectories"] = [trajectory(agent) for agent in agents]
    return shown


def _steps(outputs: Sequence[Output], started: Mapping[str, str]) -> Iterator[_Object]:
    """Yield the steps, not yet numbered.

    A reply's blocks precede its end mark, and so may files that its calls handed over.
    """
    blocks: list[BlockOutput] = []
    beside: list[_Object] = []
    for output in outputs:
        match output:
            case BlockOutput():
                blocks.append(output)
            case ReplyOutput():
                of_reply = [each for each in blocks if each.reply_id == output.reply_id]
                yield _reply(of_reply, output, started)
                yield from beside
                blocks, beside = [], []
            case UserOutput():
                yield _step(
                    output.at_ms,
                    "user" if output.is_typed else "system",
                    content_text(output.content),
                )
            case DiscardedOutput():
                # Its usage is unknown: the step has no complete model call.
                step = _step(output.at_ms, "agent", output.text)
                step["extra"] = {"incomplete": output.reason}
                yield step
            case _:
                if text := entry_text(output):
                    beside.append(_step(output.at_ms, "system", text))
                if not blocks:
                    yield from beside
                    beside = []


def _reply(blocks: Sequence[BlockOutput], end: ReplyOutput, started: Mapping[str, str]) -> _Object:
    texts = [str(each.block.get("text", "")) for each in blocks if isinstance(each, TextOutput)]
    thoughts = [
        str(each.block.get("thinking", "")) for each in blocks if isinstance(each, ThinkingOutput)
    ]
    calls = [each for each in blocks if isinstance(each, ToolOutput)]
    step = _step(end.at_ms, "agent", "".join(texts))
    step["model_name"] = end.model
    if reasoning := "\n\n".join(filter(None, thoughts)):
        step["reasoning_content"] = reasoning
    if calls:
        step["tool_calls"] = [_trajectory_call(call) for call in calls]
        step["observation"] = {"results": [_result(call, started) for call in calls]}
    step["metrics"] = _metrics(sum((each.usage for each in end.beside), end.usage))
    step["llm_call_count"] = 1 + len(end.beside)
    step["extra"] = {"stop_reason": end.stop_reason}
    return step


def _step(at_ms: int, source: str, message: str) -> _Object:
    step: _Object = {"source": source, "message": message}
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError):  # an imported history may have any number
        return step
    return {"timestamp": at.isoformat(timespec="milliseconds"), **step}


def _trajectory_call(call: ToolOutput) -> _Object:
    arguments = call.input
    return {
        "tool_call_id": call.tool_call_id,
        "function_name": call.name,
        # ATIF requires arguments to be an object; a model may write any JSON.
        "arguments": dict(arguments) if isinstance(arguments, Mapping) else {"input": arguments},
    }


def _result(call: ToolOutput, started: Mapping[str, str]) -> _Object:
    result: _Object = {"source_call_id": call.tool_call_id, "content": result_text(call)}
    if agent := started.get(call.tool_call_id):
        result["subagent_trajectory_ref"] = [{"trajectory_id": agent}]
    return result


def _metrics(usage: Usage) -> _Object:
    metrics: _Object = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cache_read_tokens,
    }
    if usage.cost_microdollars is not None:
        metrics["cost_usd"] = in_usd(usage.cost_microdollars)
    return metrics


def _final_metrics(usage: Usage, steps: int) -> _Object:
    totals: _Object = {f"total_{name}": value for name, value in _metrics(usage).items()}
    return {**totals, "total_steps": steps}
