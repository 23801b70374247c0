"""Answer requests of MCP servers, through the front end's dialogs and at the user's expense.

Translates between the two: a front end shows plain forms, a server gets plain answers.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.app.mcp import switches
from agent_cli.app.sessions import Sessions
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.dialogs import Filled, Form, ServerDialogs
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.events import EventSink, Notice
from agent_cli.contracts.provider import Model, StreamFn
from agent_cli.contracts.timeline import Json
from agent_cli.core.agent import Agent
from agent_cli.mcp_client import Elicitation, ElicitationAnswer, Host
from agent_cli.mcp_client.host import sampling
from agent_cli.policies.accounts import metered, spending_now
from agent_cli.system import paths

if TYPE_CHECKING:
    from agent_cli.contracts.servers import SamplingRequest
    from agent_cli.hooks.event_hooks import ServerQuestionHooks


class ServerHost:
    """Answers servers; without dialogs every question is declined.

    Attributes:
        dialogs: The front end's dialogs, set once its screen is up.
    """

    def __init__(
        self,
        startup: StartupContext,
        *,
        stream: StreamFn,
        model: Model,
        check_budget: Callable[[], None],
        agent: Callable[[], Agent],
        sessions: Callable[[], Sessions],
        directories: Callable[[], Sequence[Path]],
        publish: EventSink,
        hooks: "Callable[[], ServerQuestionHooks | None]" = lambda: None,
    ) -> None:
        """Decline every question until `dialogs` is set.

        Args:
            startup: The workspace and the settings.
            stream: Asks a model on behalf of a server.
            model: The model to ask; the server's preference is ignored.
            check_budget: Raises `LimitReached` when the budget is used up.
            agent: Returns the agent whose conversation bears the cost; built later.
            directories: Returns the directories the tools may use; built later.
            sessions: Returns the sessions, next to which result files are stored; built later.
            publish: Receives the usage.
            hooks: Returns the hooks around questions; built later.
        """
        self.dialogs: ServerDialogs | None = None
        self._startup = startup
        self._stream = stream
        self._model = model
        self._check_budget = check_budget
        self._agent = agent
        self._sessions = sessions
        self._directories = directories
        self._publish = publish
        self._spent = spending_now(lambda: agent().conversation, publish)
        self._hooks = hooks

    def as_host(self, *, one_shot: bool) -> Host:
        """Return the host object for servers; a *one_shot* run offers no dialogs."""
        sample = sampling(
            metered(self._stream, self._spent),
            model=lambda: self._model,
            allow=self._allow,
            check_budget=self._check_sampling,
        )
        return Host(
            elicit=self._elicit,
            # Offered from the start, because capabilities are declared once per connection.
            sample=None if one_shot else sample,
            roots=self._directories,
            files_dir=self._files_dir,
            remember_switch=self._remember_switch,
        )

    def _remember_switch(self, server: str, on: bool) -> None:
        switches().switch(self._startup.workspace, server, on=on)

    async def _elicit(self, question: Elicitation) -> ElicitationAnswer:
        hooks = self._hooks()
        if hooks is None:
            filled = await self._ask_user(question)
            return ElicitationAnswer(filled.action, filled.values)
        about = _in_claudes_fields(question)
        answer = await hooks.asks(question.server, about)
        if answer is None or not self._fits(question, answer, "the user is asked"):
            if self.dialogs:
                hooks.shown(question.server)
            answer = await hooks.answered(question.server, about, await self._ask_user(question))
            if not self._fits(question, answer, "it is declined"):
                return ElicitationAnswer("decline")
        return ElicitationAnswer(answer.action, answer.values)

    def _fits(self, question: Elicitation, filled: Filled, otherwise: str) -> bool:
        """Return whether the values of *filled* fit the form; if not, warn."""
        if filled.action != "accept" or question.url:
            return True
        from agent_cli.mcp_client.forms import form_fault, with_defaults  # rare

        values = with_defaults(question.schema, filled.values)
        values = {name: value for name, value in values.items() if value is not None}
        fault = form_fault(question.schema, values)
        if fault:
            notice = f"the answer of a hook does not fit the question of {question.server}"
            self._publish(Notice("warning", f"{notice}, so {otherwise}: {fault}"))
        return not fault

    async def _ask_user(self, question: Elicitation) -> Filled:
        if self.dialogs is None:
            what = "wants the user to visit a page" if question.url else "has a question"
            text = f"MCP server '{question.server}' {what}, declined: there is no user to ask"
            self._publish(Notice("warning", text))
            return Filled("decline")
        if question.url:
            return Filled(
                await self.dialogs.visit_page(
                    server=question.server, message=question.message, url=question.url
                )
            )
        return await self.dialogs.fill_form(_form(question))

    async def _allow(self, request: "SamplingRequest") -> bool:
        if self.dialogs is None:
            raise ToolError("there is no user to ask whether the server may ask the model")
        return await self.dialogs.allow_sampling(request, model=self._model.id)

    def _check_sampling(self) -> None:
        if not self._agent().conversation.prompts:
            # The cost is counted in the current prompt, so there must be one.
            raise ToolError("a server may ask the model only after the user's first prompt")
        self._check_budget()

    def _files_dir(self) -> Path:
        session_id = self._sessions().id
        if session_id is None:
            return paths.state_dir() / "mcp" / "files"
        return paths.server_files_dir(session_id)


def _form(question: Elicitation) -> Form:
    from agent_cli.mcp_client.forms import form_fault, form_fields  # rare

    # Fields are checked one at a time, so another missing field is not a fault.
    schema = {**question.schema, "required": []}
    return Form(
        question.server,
        question.message,
        form_fields(question.schema),
        lambda name, value: form_fault(schema, {name: value}),
    )


def _in_claudes_fields(question: Elicitation) -> dict[str, Json]:
    if question.url:
        return {"message": question.message, "mode": "url", "url": question.url}
    schema = dict(question.schema)
    return {"message": question.message, "mode": "form", "requested_schema": schema}
