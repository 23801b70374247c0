"""`agent-cli batch --batch-api`: requests of prompts, and results of their answers."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from agent_cli.app import parts
from agent_cli.app.arguments import Arguments, parse_arguments
from agent_cli.app.startup import StartupContext, start
from agent_cli.batch import TaskRun
from agent_cli.batch.api_engine import ApiEngine, ApiRequest, Batches
from agent_cli.batch.tasks import Task
from agent_cli.contracts.errors import AgentCliError, UsageError
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import ModelRequest, Price, ReplyStart
from agent_cli.contracts.timeline import Json, Usage
from agent_cli.contracts.wording import dollars, in_microdollars, unpriced
from agent_cli.headless.output_dir import OutputDir
from agent_cli.headless.report import EXIT_CODES, RunReport
from agent_cli.prompt_files import read_prompt
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.models import in_us, model_by_id, standard_id
from agent_cli.providers.anthropic.platforms import ANTHROPIC
from agent_cli.providers.anthropic.reply_builder import ReplyBuilder
from agent_cli.providers.anthropic.wire import parameters
from agent_cli.providers.failures import Refusal, refused
from agent_cli.system.loading import load
from agent_cli.terminal.writer import print_complaint

_REFUSED: Final = (
    *(("--engine", "engine"), ("--json-schema", "json_schema"), ("--time-limit", "time_limit_s")),
    *(("--max-tokens-total", "tokens_max"), ("--add-dir", "add_dirs")),
)
_TAKEN: Final = ("--model=", "--effort=")
_PROMPT, _LIMIT = "--prompt-file=", "--max-cost="
_SHARE: Final = 2  # a Message Batch costs half of the same requests one by one
_STATUSES: Final[Mapping[str, int]] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class _TooExpensive(AgentCliError):
    stop_reason = "max_cost"
    exit_code = EXIT_CODES["max_cost"]


def check_api_tasks(arguments: Arguments, tasks: Sequence[Task]) -> None:
    """Check that each of *tasks* is a prompt that a single request can answer.

    Raises:
        UsageError: An option or a field has no meaning for a request without tools.
    """
    refused = [option for option, name in _REFUSED if getattr(arguments, name)]
    refused += [each.flag for each in arguments.overrides if each.key == "max_rounds"]
    if refused:
        raise UsageError(f"{refused[0]} cannot be used with --batch-api")
    for task in tasks:
        others = [each for each in task.options if not each.startswith(_TAKEN)]
        field = "ref" if task.checkout else others[0].partition("=")[0] if others else ""
        if field:
            name = field.removeprefix("--").replace("-", "_")
            raise UsageError(
                f"task {task.id!r}: {name} cannot be used with --batch-api, which sends a prompt"
                " without tools: remove it"
            )


def api_engine(startup: StartupContext, journal: Path) -> ApiEngine:
    """Return the engine that answers tasks through the Message Batches API.

    Raises:
        UsageError: The API is not Anthropic's own.
    """
    connection = parts.connection(startup)
    if connection.platform is not ANTHROPIC or not startup.loaded.settings.provider.is_whole:
        raise UsageError("--batch-api needs Anthropic's own API: remove it, or change [provider]")

    async def connect() -> Batches:
        module = "agent_cli.providers.anthropic.sdk_client"
        await asyncio.to_thread(load, module)  # the SDK takes over a second
        from agent_cli.providers.anthropic.sdk_client import MessageBatches

        return MessageBatches(connection)

    return ApiEngine(connect, ApiRuns(connection), journal, tell=print_complaint)


class ApiRuns:
    """Implements `api_engine.Translator` with the settings of this folder."""

    def __init__(self, connection: Connection) -> None:
        """Use the prices and the redaction of *connection*."""
        self._price = connection.price
        self._redact = connection.redact
        self._serving = connection.serving
        self._templates: dict[tuple[str, ...], ModelRequest] = {}

    def request(self, work: TaskRun) -> ApiRequest:
        """Return the request: the prompt, and what the user says for the system prompt.

        Raises:
            AgentCliError: The cost limit is too low for it, or the model has no known price.
        """
        common = tuple(each for each in work.options if not each.startswith((_PROMPT, _LIMIT)))
        if common not in self._templates:
            self._templates[common] = _template(common)
        text = read_prompt(Path(_value(work.options, _PROMPT)))
        request = replace(self._templates[common], messages=(UserMessage.of(text),))
        if limit := _value(work.options, _LIMIT):
            # Unless a request says where it is served, the workspace does.
            price = self._price if "inference_geo" in self._serving else in_us(self._price)
            request = within(in_microdollars(float(limit)), request, price)
        sent = {**parameters(request, compat=False), **self._serving}
        # Each prompt is sent once, so writing it to the cache would only cost more.
        sent.pop("cache_control", None)
        betas = sent.pop("betas", [])
        assert isinstance(betas, list)
        return ApiRequest(sent, [str(each) for each in betas])

    def keep_result(self, output_dir: Path, result: Mapping[str, Json]) -> None:
        """Write the result of a run for the *result* of its request."""
        message = result.get("message")
        if result.get("type") == "succeeded" and isinstance(message, dict):
            self._keep(output_dir, self._answer(message))
        else:
            self.keep_failure(output_dir, _failure(result))

    def keep_failure(self, output_dir: Path, error: AgentCliError) -> None:
        """Write the result of a run whose request was not answered; it has cost nothing."""
        report = RunReport.of_failure(error)
        report.stop_reason = error.stop_reason
        self._keep(output_dir, report)

    def _keep(self, output_dir: Path, report: RunReport) -> None:
        OutputDir(output_dir, self._redact).write_result(report.to_json())

    def _answer(self, message: dict[str, Json]) -> RunReport:
        model = str(message.get("model") or "")
        is_placed = "inference_geo" in self._serving
        started: dict[str, Json] = {"type": "message_start", "message": message}
        begun = next(ReplyBuilder(model, None, self._price, is_placed=is_placed).feed(started))
        assert isinstance(begun, ReplyStart)
        cost = begun.usage.cost_microdollars
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        texts = [str(block.get("text", "")) for block in blocks if isinstance(block, dict)]
        reason = str(message.get("stop_reason") or "error")
        return RunReport(
            text="".join(texts),
            stop_reason=reason,
            rounds=1,
            usage=replace(begun.usage, cost_microdollars=halved(cost)),
            exit_code=EXIT_CODES.get(reason, 0),
            error="the model refused to answer" if reason == "refusal" else "",
        )


def within(limit: int, request: ModelRequest, price: Price) -> ModelRequest:
    """Return *request* with as many output tokens as the *limit* in micro-dollars allows.

    A token has at least one byte, so the prompt has at most as many tokens as bytes.

    Raises:
        AgentCliError: The prompt alone costs more, or the model has no known price.
    """
    texts = [*request.system, *(str(message) for message in request.messages)]
    prompt = sum(len(text.encode()) for text in texts)

    def most(tokens: int) -> int:
        cost = price(request.model.id, Usage(input_tokens=prompt, output_tokens=tokens))
        if cost is None:
            raise AgentCliError(unpriced(request.model.id))
        return -(-cost // _SHARE)

    largest = min(request.max_tokens, request.model.max_output_tokens)
    if most(largest) <= limit:
        return request
    low, high = 0, largest
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if most(middle) <= limit else (low, middle - 1)
    if not low:
        raise _TooExpensive(f"the prompt may cost more than {dollars(limit)}: raise --max-cost")
    return replace(request, max_tokens=low)


def halved(cost: int | None) -> int | None:
    """Return the price of a request in a Message Batch, rounded up."""
    return None if cost is None else -(-cost // _SHARE)


def _template(options: tuple[str, ...]) -> ModelRequest:
    """Return the request of a run with *options*, without its prompt."""
    arguments = parse_arguments(("-p=x", *options))
    startup = start(arguments, may_ask=False)
    settings = startup.loaded.settings
    model = model_by_id(settings.model_id())
    if (standard := standard_id(model.id)) != model.id:
        raise UsageError(f"--batch-api has no fast mode: name the model {standard}")
    system = (arguments.system_prompt, arguments.append_system_prompt)
    return ModelRequest(
        model=model,
        messages=(),
        system=tuple(filter(None, ("\n\n".join(filter(None, system)),))),
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        thinking_level=settings.effort,
        stands_alone=True,
    )


def _value(options: Sequence[str], name: str) -> str:
    return next((each.removeprefix(name) for each in options if each.startswith(name)), "")


def _failure(result: Mapping[str, Json]) -> AgentCliError:
    """Return the error for a request that was not answered: refused, cancelled or expired."""
    match result:
        case {"error": {"error": {"type": str() as kind, "message": str() as message}}}:
            status = _STATUSES.get(kind, 500)
            return refused(
                Refusal(status=status, message=message, remedies=ANTHROPIC.remedies, kind=kind)
            ).error
        case _:
            message = f"the Message Batch ended without an answer ({result.get('type')})"
            return refused(
                Refusal(
                    status=529,
                    message=message,
                    remedies=ANTHROPIC.remedies,
                    kind="overloaded_error",
                )
            ).error
