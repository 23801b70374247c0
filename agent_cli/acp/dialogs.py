"""Questions of the model and of MCP servers to the client's user."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import takewhile
from typing import Final

from agent_cli.acp import ConnectionLost, RpcFault
from agent_cli.acp.client import EditorClient, PermissionOption
from agent_cli.acp.content import fenced, text
from agent_cli.contracts.dialogs import (
    Action,
    Filled,
    Form,
    PlanApproved,
    PlanDecision,
    PlanRefused,
    UserQuestion,
)
from agent_cli.contracts.messages import new_id
from agent_cli.contracts.servers import FormField, SamplingRequest
from agent_cli.contracts.timeline import Json, text_of
from agent_cli.contracts.wording import one_line
from agent_cli.system.sanitize import reveal

_OWN: Final = "own_"
_TRIES_MAX: Final = 3
_PLAN: Final = (
    PermissionOption("auto-edit", "Yes, and edit files without asking (auto-edit)", "allow_always"),
    PermissionOption("ask", "Yes, and ask before each change (ask)", "allow_once"),
    PermissionOption("no", "No, stay in plan mode", "reject_once"),
)
_SAMPLING: Final = (
    PermissionOption("once", "Yes, once", "allow_once"),
    PermissionOption("no", "No", "reject_once"),
)
_TYPES: Final[Mapping[str, str]] = {
    "text": "string",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
    "choice": "string",
}


class EditorModelDialogs:
    """Asks the user the model's questions; see `dialogs.ModelDialogs` of the contracts."""

    def __init__(
        self, client: EditorClient, running_call: Callable[[], str], turn: asyncio.Lock
    ) -> None:
        """Ask nothing yet; *running_call* gives the asking call, *turn* is held while asking."""
        self._client = client
        self._running_call = running_call
        self._turn = turn

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer."""
        return True

    async def ask(
        self, questions: Sequence[UserQuestion], *, asker: str = "the agent"
    ) -> Sequence[str] | None:
        """Return the answers to *questions*; after a dismissed one, only those given before it."""
        async with self._turn:
            try:
                if self._client.shows_forms:
                    return await self._by_form(questions, asker)
                return await self._by_choices(questions)
            except (RpcFault, ConnectionLost):
                return None

    async def decide_plan(self, plan: str) -> PlanDecision:
        """Show *plan* and return the user's decision."""
        async with self._turn:
            shown: list[Json] = [{"type": "content", "content": text(plan)}]
            call = self._call("Carry out this plan?", "switch_mode", shown)
            try:
                answer = await self._client.choose(call, _PLAN)
            except (RpcFault, ConnectionLost):
                return PlanRefused()
        match answer:
            case "auto-edit":
                return PlanApproved(plan, "auto-edit")
            case "ask":
                return PlanApproved(plan, "ask")
            case _:
                return PlanRefused()

    async def _by_form(self, questions: Sequence[UserQuestion], asker: str) -> Sequence[str] | None:
        properties: dict[str, Json] = {}
        for number, question in enumerate(questions, 1):
            if question.options:
                properties[f"q{number}"] = {
                    "type": "string",
                    "title": reveal(question.question),
                    "oneOf": [
                        {"const": option.label, "title": _label(option.label, option.description)}
                        for option in question.options
                    ],
                }
            title = "Your own answer" if question.options else reveal(question.question)
            properties[f"{_OWN}{number}"] = {"type": "string", "title": title}
        answer = await self._client.fill_form(
            f"{asker[:1].upper()}{asker[1:]} asks", {"type": "object", "properties": properties}
        )
        if answer.action != "accept":
            return None
        texts = {name: value for name, value in answer.values.items() if isinstance(value, str)}
        answers = [
            texts.get(f"{_OWN}{n}") or texts.get(f"q{n}") or ""
            for n in range(1, len(questions) + 1)
        ]
        return [*takewhile(bool, answers)] or None

    async def _by_choices(self, questions: Sequence[UserQuestion]) -> Sequence[str] | None:
        answers: list[str] = []
        for question in questions:
            choices = [
                PermissionOption(str(at), _label(option.label, option.description), "allow_once")
                for at, option in enumerate(question.options)
            ]
            closing = PermissionOption("none", "None of these", "reject_once")
            call = self._call(reveal(question.question), "other", [])
            try:
                answer = await self._client.choose(call, [*choices, closing])
            except (RpcFault, ConnectionLost):
                break
            by_id = {str(at): option.label for at, option in enumerate(question.options)}
            if answer not in by_id:
                break
            answers.append(by_id[answer])
        return answers or None

    def _call(self, title: str, kind: str, content: list[Json]) -> dict[str, Json]:
        id = self._running_call() or new_id()
        return {"toolCallId": id, "title": title, "kind": kind, "content": content}


class EditorServerDialogs:
    """Asks the user the questions of MCP servers; see `dialogs.ServerDialogs` of the contracts."""

    def __init__(
        self,
        client: EditorClient,
        turn: asyncio.Lock,
        *,
        say: Callable[[str], None],
        on_change: Callable[[], None],
    ) -> None:
        """Ask nothing yet.

        Args:
            client: The client to ask.
            turn: Held during a dialog.
            say: Shows a sentence about a question that was declined without asking.
            on_change: Called after a server's state changed.
        """
        self._client = client
        self._turn = turn
        self._say = say
        self._on_change = on_change

    async def fill_form(self, form: Form) -> Filled:
        """Let the user fill in *form*."""
        if not self._client.shows_forms:
            self._declined(form.server, "has a question")
            return Filled("decline")
        schema = _schema(form.fields)
        message = f"{_named(form.server)} asks: {reveal(form.message)}"
        async with self._turn:
            for _ in range(_TRIES_MAX):
                answer = await _answered(self._client.fill_form(message, schema))
                faults = _faults(form, answer.values) if answer.action == "accept" else ()
                if not faults:
                    return answer
                message = f"{_named(form.server)}: {reveal('; '.join(faults))}"
        return Filled("cancel")

    async def visit_page(self, *, server: str, message: str, url: str) -> Action:
        """Show the user a URL that a server wants them to visit."""
        if not self._client.shows_pages:
            self._declined(server, "wants you to visit a page")
            return "decline"
        text = f"{_named(server)}: {reveal(message)}"
        async with self._turn:
            answer = await _answered(self._client.visit_page(text, url, new_id()))
        return answer.action

    async def allow_sampling(self, request: SamplingRequest, *, model: str) -> bool:
        """Show the prompt a server wants to send to *model*; return whether the user allows it."""
        messages = "\n\n".join(f"{role}: {text_of(blocks)}" for role, blocks in request.messages)
        shown = fenced(reveal(f"{request.system_prompt}\n\n{messages}".strip()))
        call: dict[str, Json] = {
            "toolCallId": new_id(),
            "title": f"{_named(request.server)} wants to ask {model} at your expense",
            "kind": "other",
            "content": [{"type": "content", "content": text(shown)}],
        }
        async with self._turn:
            try:
                return await self._client.choose(call, _SAMPLING) == "once"
            except (RpcFault, ConnectionLost):
                return False

    def servers_changed(self) -> None:
        """Report that the list or state of the servers changed."""
        self._on_change()

    def _declined(self, server: str, what: str) -> None:
        self._say(f"{_named(server)} {what}, declined: this client shows no such question")


async def _answered(asking: Awaitable[Filled]) -> Filled:
    """Return the client's answer; a refusal or a lost connection counts as closed."""
    try:
        return await asking
    except (RpcFault, ConnectionLost):
        return Filled("cancel")


def _schema(fields: Sequence[FormField]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": {field.name: _property(field) for field in fields},
        "required": [field.name for field in fields if field.required],
    }


def _property(field: FormField) -> dict[str, Json]:
    shown: dict[str, Json] = {"title": reveal(field.label)}
    if field.description:
        shown["description"] = reveal(field.description)
    if field.default is not None:
        shown["default"] = field.default
    options: list[Json] = [
        {"const": value, "title": reveal(label)} for value, label in field.options
    ]
    if field.kind == "choices":
        return {**shown, "type": "array", "items": {"anyOf": options}}
    shown["type"] = _TYPES[field.kind]
    if field.kind == "choice":
        shown["oneOf"] = options
    if field.format:
        shown["format"] = field.format
    return shown


def _faults(form: Form, values: Mapping[str, Json]) -> list[str]:
    known = {field.name: field for field in form.fields}
    faults = [form.fault(name, value) for name, value in values.items() if name in known]
    faults += [f"{name} is not a field of the form" for name in values if name not in known]
    missing = [f.label for f in form.fields if f.required and f.name not in values]
    return [*filter(None, faults), *(f"{label} is missing" for label in missing)]


def _named(server: str) -> str:
    return f"MCP server '{one_line(reveal(server))}'"


def _label(label: str, description: str) -> str:
    return one_line(reveal(f"{label}: {description}" if description else label), 300)
