"""Translate a request into the parameters of the Messages API; pure.

All fields are in a fixed order, so that an appended turn changes no earlier byte: prompt caches and
signed thinking depend on it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from agent_cli.contracts.found_tools import CALL_FOUND
from agent_cli.contracts.media_files import REQUEST_CHARS_MAX
from agent_cli.contracts.messages import LlmMessage, UserMessage
from agent_cli.contracts.provider import Model, ModelRequest
from agent_cli.contracts.timeline import Block, Json
from agent_cli.contracts.tooling import ToolSpec
from agent_cli.providers.anthropic.betas import (
    BETAS,
    CACHE_DIAGNOSTICS,
    COMPACTION,
    EAGER_INPUT,
    FAST_MODE,
    INLINE_TOOLS,
    MESSAGE_EFFORT,
    OUTPUT_FORMAT,
    SERVER_FALLBACK,
    TASK_BUDGETS,
    THINKING_BINDING,
    TOOL_CHANGES,
    Beta,
    usable,
)
from agent_cli.providers.anthropic.models import standard_id, thinking_parameters
from agent_cli.providers.anthropic.platforms import ANTHROPIC, Platform
from agent_cli.providers.anthropic.sent_images import (
    number_max,
    without_documents,
    without_large_among_many,
    without_oldest,
)
from agent_cli.providers.anthropic.wire_parts import (
    MessageForm,
    MessageTranslation,
    Translated,
    states_effort,
)

TASK_BUDGET_MIN: Final = 20_000
# Our tools with inputs that take long to write. The API holds each value of another tool back until
# it is whole and valid; an MCP server may rely on that.
_LONG_INPUTS: Final = frozenset({"agent", "bash", "edit", "present_plan", "write"})
_INSTRUCTIONS_CHARS_MAX: Final = 16_384
HOUR: Json = {"type": "ephemeral", "ttl": "1h"}
FIVE_MINUTES: Json = {"type": "ephemeral"}
COUNTED_FIELDS: Final = (
    "messages",
    "model",
    "betas",
    "cache_control",
    "compaction",
    "output_config",
    "system",
    "thinking",
    "tools",
)


def parameters(
    request: ModelRequest,
    *,
    compat: bool,
    platform: Platform = ANTHROPIC,
    image_chars_max: int = REQUEST_CHARS_MAX,
    refused: Collection[Beta] = (),
    translated: Translated | None = None,
) -> dict[str, Json]:
    """Return the arguments of `client.beta.messages.create` for *request*, except `stream`.

    Args:
        compat: For servers with only the core of the API: no betas, no cache markers, no metadata,
            and thinking only if a level is requested.
        platform: The platform that serves the model; decides its id, and which features are sent.
        image_chars_max: Characters that images and documents together may have.
        refused: Beta features that the server has refused.
        translated: Keeps the messages for the next request with the same beginning.

    Raises:
        ModelError: The model does not support the request.
    """
    betas = usable(request.model, platform, compat=compat, refused=refused)
    summary: Json = None
    if COMPACTION in betas:
        request, summary = _without_instructions(request)
    thinking = thinking_parameters(request, compat=compat)
    efforts = MESSAGE_EFFORT in betas and _leave_effort_to_messages(thinking, request.messages)
    form = MessageForm(model=request.model, betas=betas, compat=compat, has_efforts=efforts)
    translation = (translated or Translated()).translate(request, form)
    messages = _with_fitting_images(translation, request.model, image_chars_max, compat=compat)
    automatic = platform.has_automatic_caching
    is_cached = not (compat or request.stands_alone)
    sent: dict[str, Json] = {
        "model": _id_of(request.model, platform, compat=compat),
        **({"speed": "fast"} if FAST_MODE in betas else {}),
        "max_tokens": min(request.max_tokens, request.model.max_output_tokens),
        "messages": [*_with_markers(messages, automatic=automatic)] if is_cached else [*messages],
        **_fixed_part(request.system, _eager(translation.tools, betas), marked=not compat),
        **thinking,
        **({"compaction": summary} if summary else {}),
    }
    if automatic and is_cached:
        sent["cache_control"] = FIVE_MINUTES
    used = {
        THINKING_BINDING: THINKING_BINDING in betas and _drop_stale_thinking(sent),
        TASK_BUDGETS: TASK_BUDGETS in betas and _set_budget(sent, request.task_budget),
        SERVER_FALLBACK: SERVER_FALLBACK in betas
        and (_name_fallbacks(sent, request, platform) or translation.has_fallback),
        CACHE_DIAGNOSTICS: CACHE_DIAGNOSTICS in betas and _ask_for_diagnosis(sent, request),
        INLINE_TOOLS: INLINE_TOOLS in betas and _may_gain_tools(translation, request.tools),
        TOOL_CHANGES: translation.changes_tools,
        MESSAGE_EFFORT: efforts,
        COMPACTION: COMPACTION in betas and (bool(summary) or translation.is_signed),
        OUTPUT_FORMAT: OUTPUT_FORMAT in betas and _set_format(sent, request),
        FAST_MODE: FAST_MODE in betas,
    }
    if headers := [beta.header for beta in BETAS if used.get(beta) and beta.header]:
        sent["betas"] = [*headers]
    return sent | _options(request, compat=compat)


def _id_of(model: Model, platform: Platform, *, compat: bool) -> str:
    """Return the id to send: elsewhere than on Anthropic's API, fast models have their own."""
    is_own = platform is ANTHROPIC and not compat
    return platform.model_id(standard_id(model.id) if is_own else model.id)


def counted(sent: Mapping[str, Json]) -> dict[str, Json]:
    """Return the part of `parameters` that `client.beta.messages.count_tokens` takes."""
    return {name: sent[name] for name in COUNTED_FIELDS if name in sent}


def _without_instructions(request: ModelRequest) -> tuple[ModelRequest, Json]:
    """Return a request for a summary without its last message, and that as the API's parameter.

    Another request stays as it is, with None, and so does one whose instructions are too long.
    """
    if not (request.summarizes and 0 < len(_instructions(request)) <= _INSTRUCTIONS_CHARS_MAX):
        return request, None
    parameter: Json = {"type": "summarize", "instructions": _instructions(request)}
    return replace(request, messages=request.messages[:-1]), parameter


def _instructions(request: ModelRequest) -> str:
    last = request.messages[-1] if request.messages else None
    return last.text if isinstance(last, UserMessage) else ""


def _options(request: ModelRequest, *, compat: bool) -> dict[str, Json]:
    """Return the parameters that are no part of the prompt."""
    options: dict[str, Json] = {}
    if not compat and request.session_id is not None:
        options["metadata"] = {"user_id": request.session_id}
    if request.temperature is not None:
        # The SDK dropped this parameter, but some servers still support it.
        options["extra_body"] = {"temperature": request.temperature}
    return options


def _with_fitting_images(
    translation: MessageTranslation, model: Model, chars_max: int, *, compat: bool
) -> Sequence[Block]:
    if not translation.has_media:
        return translation.messages
    number = number_max(model.context_window)
    if compat:
        return without_oldest(without_documents(translation.messages), chars_max, number)
    return without_large_among_many(without_oldest(translation.messages, chars_max, number))


def _eager(tools: Sequence[Block], betas: Collection[Beta]) -> Sequence[Block]:
    """Return *tools* with the mark that lets the API send long inputs while they are written.

    They may be no valid JSON then, which `check_input` refuses. The mark is a part of what is
    cached, so it is the same in every request.
    """
    if EAGER_INPUT not in betas:
        return tools
    return [
        {**tool, "eager_input_streaming": True} if tool["name"] in _LONG_INPUTS else tool
        for tool in tools
    ]


def _fixed_part(prompts: Sequence[str], tools: Sequence[Block], *, marked: bool) -> dict[str, Json]:
    """Return tools and system, with a one-hour cache marker after the fixed part.

    Another marks the end of what sessions of one workspace have in common, such as instructions.
    """
    system: list[Block] = [{"type": "text", "text": part} for part in prompts if part.strip()]
    tools = list(tools)
    if marked and system:
        system[0] = {**system[0], "cache_control": HOUR}
        if len(system) > 2:  # the last part is date and git's state
            system[-2] = {**system[-2], "cache_control": FIVE_MINUTES}
    elif marked and tools:
        # A deferred tool may have no marker.
        last = max(at for at, tool in enumerate(tools) if "defer_loading" not in tool)
        tools[last] = {**tools[last], "cache_control": HOUR}
    fixed: dict[str, Json] = {}
    if system:
        fixed["system"] = [*system]
    if tools:
        fixed["tools"] = [*tools]
    return fixed


def _with_markers(messages: Sequence[Block], *, automatic: bool) -> list[Block]:
    """Add a cache marker where the previous request ended; without *automatic*, at the end too.

    A marker finds cached content only within 20 blocks; a reply with its results can be longer, and
    then the whole history would be paid for again.
    """
    marked = list(messages)
    if not automatic and messages and messages[-1]["role"] == "user":
        marked[-1] = _marked(messages[-1])
    replies = (at for at in reversed(range(len(messages))) if messages[at]["role"] == "assistant")
    if (reply := next(replies, 0)) > 0:
        previous = reply - 1
        if previous and not messages[previous]["content"]:
            previous -= 1  # it only changes the effort
        marked[previous] = _marked(messages[previous])
    return marked


def _marked(message: Block) -> Block:
    content = message["content"]
    assert isinstance(content, list)
    last = content[-1]
    assert isinstance(last, dict)
    marked: Json = {**last, "cache_control": FIVE_MINUTES}
    return {**message, "content": [*content[:-1], marked]}


def _leave_effort_to_messages(thinking: dict[str, Json], history: Sequence[LlmMessage]) -> bool:
    """Take the effort out of *thinking* if *history* states it; return whether it does.

    The API takes no such statement while thinking is off.
    """
    configured = thinking.get("thinking")
    adaptive = isinstance(configured, dict) and configured["type"] == "adaptive"
    if not adaptive or not states_effort(history):
        return False
    thinking.pop("output_config", None)
    return True


def _drop_stale_thinking(sent: dict[str, Json]) -> bool:
    """Let the API drop thinking that does not fit its history any more; return whether it may.

    Compaction and trimming edit the history; a stale thinking block must not cause a 400.
    """
    thinking = sent.get("thinking")
    if not isinstance(thinking, dict) or thinking["type"] != "adaptive":
        return False
    sent["thinking"] = {
        **thinking,
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    }
    return True


def _set_budget(sent: dict[str, Json], total: int | None) -> bool:
    """Add a budget of *total* tokens; return False without one the API takes."""
    if total is None or total < TASK_BUDGET_MIN:
        return False
    _configure_output(sent, "task_budget", {"type": "tokens", "total": total})
    return True


def _set_format(sent: dict[str, Json], request: ModelRequest) -> bool:
    """Hold the reply's text to a schema; return False without one that the API generates by."""
    if request.output_schema is None or "compaction" in sent or _may_cite(sent):
        return False
    from agent_cli.providers.anthropic.output_format import output_format  # with a schema

    form = output_format(request.output_schema)
    if form is None:
        return False
    _configure_output(sent, "format", form)
    return True


def _configure_output(sent: dict[str, Json], name: str, value: Json) -> None:
    configured = sent.get("output_config")
    sent["output_config"] = {**(configured if isinstance(configured, dict) else {}), name: value}


def _may_cite(sent: dict[str, Json]) -> bool:
    """Return whether the reply may cite what the API found, which it does not in a given form."""
    tools = sent.get("tools")
    return isinstance(tools, list) and any(isinstance(e, dict) and "type" in e for e in tools)


def _name_fallbacks(sent: dict[str, Json], request: ModelRequest, platform: Platform) -> bool:
    """Name the models to ask if the request's declines; return False without any.

    They answer at normal speed: `usage` does not say which of several was fast.
    """
    asked = min(request.max_tokens, request.model.max_output_tokens)
    named: list[Json] = [
        {
            "model": _id_of(model, platform, compat=False),
            **({"speed": None} if "speed" in sent else {}),
            **({} if asked <= (most := model.max_output_tokens) else {"max_tokens": most}),
        }
        for model in request.fallbacks
        if standard_id(model.id) != standard_id(request.model.id)
    ]
    if named:
        sent["fallbacks"] = named
    return bool(named)


def _may_gain_tools(translation: MessageTranslation, tools: Sequence[ToolSpec]) -> bool:
    """Return whether *tools* are added, now or later.

    A server is to refuse the feature with the first request, before it caches anything.
    """
    return translation.adds_tools or any(tool.name == CALL_FOUND for tool in tools)


def _ask_for_diagnosis(sent: dict[str, Json], request: ModelRequest) -> bool:
    """Ask for the reason of a cache miss; the first request asks too, to be compared with."""
    sent["diagnostics"] = {"previous_message_id": request.previous_message_id}
    return True
