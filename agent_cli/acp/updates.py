"""The events of a session as updates for its client."""

from collections.abc import Callable
from typing import TypeAlias

from agent_cli.acp.content import message_chunk, text
from agent_cli.acp.options import config_options
from agent_cli.acp.ports import Application
from agent_cli.acp.tool_calls import CallView, progress
from agent_cli.contracts import events
from agent_cli.contracts.messages import AssistantMessage, typed_in
from agent_cli.contracts.money import in_usd
from agent_cli.contracts.provider import TextDelta, ThinkingDelta
from agent_cli.contracts.timeline import FileOutput, Json, ToolOutput, UserOutput, WidgetOutput
from agent_cli.contracts.wording import one_line
from agent_cli.core.recorded_calls import new_id
from agent_cli.terminal.narration import narrate, side_output
from agent_cli.terminal.sanitize import Filter, clean

Send: TypeAlias = Callable[[dict[str, Json]], None]


class Updates:
    """Sends the session's events to the client as they occur; an event sink.

    Attributes:
        running_call: The latest call that has started and not ended, or "".
    """

    def __init__(self, app: Application, send: Send) -> None:
        """Send the updates of *app*'s session with *send*."""
        self.running_call = ""
        self._app = app
        self._send = send
        self._calls = CallView(lambda: app.tools, app.workspace)
        self._message_id = ""
        self._texts = Filter()
        self._open: set[str] = set()
        self._announced: dict[str, events.ToolCall] = {}
        self._settings: list[Json] = []
        self._plan: list[Json] = []
        self._has_title = bool(app.agent.conversation.prompts)

    def __call__(self, event: events.Event) -> None:
        """Show *event*."""
        match event:
            case events.MessageStart(message=AssistantMessage()):
                self._message_id = new_id()
                self._texts.reset()
            case events.MessageUpdate(event=TextDelta(delta=delta)):
                self._say("agent_message", self._texts.feed(delta))
            case events.MessageUpdate(event=ThinkingDelta(delta=delta)):
                self._say("agent_thought", clean(delta))
            case events.ToolCallsAnnounced(calls=calls):
                for call in calls:
                    self.announce(call)
            case events.ToolExecutionStart(tool_call_id=id, tool_name=name, args=args):
                self.announce(events.ToolCall(id, name, args))
                self.running_call = id
            case events.PromptOutput(output=ToolOutput() as output) if output.is_running:
                self._begin(events.ToolCall.of(output))
            case events.ToolExecutionUpdate(tool_call_id=id, partial_result=partial):
                self._send({"sessionUpdate": "tool_call_update", **progress(id, partial)})
            case events.ToolExecutionEnd():
                self._end(event)
            case events.PromptOutput(output=output):
                self._show_side_output(output)
            case events.UsageChanged():
                self.tell_usage()
            case events.PromptStarted(prompt=prompt) if prompt.input and prompt.visible:
                self._tell_title(prompt.input)
            case events.AgentEnd():
                self._close_calls()
            case _:
                self._narrate(event)

    def announce(self, call: events.ToolCall) -> None:
        """Show a call that has not started, once."""
        if call.id not in self._open:
            self._open.add(call.id)
            self._announced[call.id] = call
            shown = self._calls.described(call)
            self._send({"sessionUpdate": "tool_call", **shown, "status": "pending"})

    def described(self, call: events.ToolCall) -> dict[str, Json]:
        """Return the fields of *call* for a question about it."""
        return self._calls.described(call)

    def tell_settings(self) -> None:
        """Send mode and options, if they changed since the client was told last."""
        options = config_options(self._app)
        if options == self._settings:
            return
        known = bool(self._settings)
        self._settings = options
        if known:
            mode = self._app.permissions.mode
            self._send({"sessionUpdate": "current_mode_update", "currentModeId": mode})
            self._send({"sessionUpdate": "config_option_update", "configOptions": options})

    def tell_usage(self) -> None:
        """Send the used part of the model's window, and the cost of the session."""
        model = self._app.agent.state.model
        update: dict[str, Json] = {
            "sessionUpdate": "usage_update",
            "used": self._app.context_tokens(),
            "size": model.context_window if model else 0,
        }
        cost = self._app.agent.conversation.usage.cost_microdollars
        if cost is not None:
            update["cost"] = {"amount": in_usd(cost), "currency": "USD"}
        self._send(update)

    def tell_plan(self) -> None:
        """Send the model's list of steps, if it changed."""
        plan: list[Json] = [
            {"content": clean(step.content), "priority": step.priority, "status": step.status}
            for step in self._app.todos()
        ]
        if plan != self._plan:
            self._plan = plan
            self._send({"sessionUpdate": "plan", "entries": plan})

    def say(self, words: str) -> None:
        """Send *words* as a separate message."""
        self._send(message_chunk("agent_message", text(words), new_id()))

    def _say(self, kind: str, words: str) -> None:
        if words:
            self._send(message_chunk(kind, text(words), self._message_id))

    def _begin(self, call: events.ToolCall) -> None:
        """Show that the tool runs: a call that is refused never does."""
        announced = self._announced.get(call.id)
        changed = announced is None or announced.input != call.input
        # A user or a hook may have replaced the announced input.
        shown = self._calls.described(call) if changed else {"toolCallId": call.id}
        self._send({"sessionUpdate": "tool_call_update", **shown, "status": "in_progress"})

    def _end(self, event: events.ToolExecutionEnd) -> None:
        id = event.tool_call_id
        self._open.discard(id)
        self._announced.pop(id, None)
        self.running_call = "" if self.running_call == id else self.running_call
        shown = self._calls.ended(id, event.result)
        self._send({"sessionUpdate": "tool_call_update", **shown})
        self.tell_plan()
        self.tell_settings()  # approving a plan leaves plan mode

    def _close_calls(self) -> None:
        """Report calls without an end as failed, except those that wait for a decision."""
        waiting = {call.tool_call_id for call in self._app.agent.conversation.open_calls()}
        if self._app.agent.conversation.waiting:
            self._open, ended = self._open & waiting, self._open - waiting
        else:
            self._open, ended = set(), self._open
        for id in sorted(ended):
            self._announced.pop(id, None)
            self._send({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "failed"})

    def _show_side_output(self, output: object) -> None:
        match output:
            case FileOutput() as file:
                link: dict[str, Json] = {
                    "type": "resource_link",
                    "uri": (self._app.workspace / file.path).as_uri(),
                    "name": file.path,
                    "mimeType": file.media_type,
                }
                self._send(message_chunk("agent_message", link, new_id()))
            case WidgetOutput() as widget:
                self.say(clean(side_output(widget)))
            case _:
                pass

    def _tell_title(self, said: UserOutput) -> None:
        if not self._has_title and (title := one_line(clean(typed_in(said.content)))):
            self._has_title = True
            self._send({"sessionUpdate": "session_info_update", "title": title})

    def _narrate(self, event: events.Event) -> None:
        sentence = narrate(event)
        if sentence is None:
            return
        kind = "agent_thought" if sentence.style == "dim" else "agent_message"
        if isinstance(event, events.Retry):
            kind = "agent_thought"
        self._send(message_chunk(kind, text(f"{clean(sentence.text)}\n\n"), new_id()))
