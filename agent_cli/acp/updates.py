"""The events of a session as updates for its client."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from agent_cli.acp.content import fenced, message_chunk, shown_blocks, text
from agent_cli.acp.options import config_options
from agent_cli.acp.ports import Application
from agent_cli.contracts import events
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.messages import AssistantMessage, new_id, typed_in
from agent_cli.contracts.provider import TextDelta, ThinkingDelta
from agent_cli.contracts.timeline import FileOutput, Json, ToolOutput, UserOutput, WidgetOutput
from agent_cli.contracts.tooling import Tool, ToolResult
from agent_cli.contracts.wording import in_usd, one_line
from agent_cli.system.paths import expanded, real_path
from agent_cli.system.sanitize import Filter, clean, reveal
from agent_cli.terminal.narration import HostedView, describe_call, narrate, side_output
from agent_cli.terminal.planned_change import planned_change, written_by

Send: TypeAlias = Callable[[dict[str, Json]], None]


class Updates:
    """Sends the session's events to the client as they occur; an event sink.

    Attributes:
        running_call: The latest call that has started and not ended, or "".
        written: By path, the text that a write replaced in the client's editor, and the new one.
    """

    def __init__(self, app: Application, send: Send) -> None:
        """Send the updates of *app*'s session with *send*."""
        self.running_call = ""
        self.written: dict[Path, tuple[str, str]] = {}
        self._app = app
        self._send = send
        self._calls = CallView(lambda: app.tools, app.workspace)
        self._hosted = HostedView()
        self._message_id = ""
        self._texts = Filter()
        self._open: set[str] = set()
        self._announced: dict[str, events.ToolCall] = {}
        self._settings: list[Json] = []
        self._plan: list[Json] = []
        self._has_title = bool(app.agent.conversation.prompts)

    def __call__(self, event: events.Event) -> None:
        """Show *event*."""
        for each in self._hosted(event):
            self._show(each)

    def _show(self, event: events.Event) -> None:
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

    def described(self, call: events.ToolCall, unsaved: str | None) -> dict[str, Json]:
        """Return the fields of *call* for a question; its file may have an *unsaved* text."""
        return self._calls.described(call, unsaved)

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
        shown = self._calls.ended(id, event.result, self.written)
        self._send({"sessionUpdate": "tool_call_update", **shown})
        self.tell_plan()
        self.tell_settings()  # approving a plan leaves plan mode

    def _close_calls(self) -> None:
        """Report calls without an end as failed, except calls that wait for a decision."""
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

    def _tell_title(self, entry: UserOutput) -> None:
        if not self._has_title and (title := one_line(clean(typed_in(entry.content)))):
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


# Tool calls as shown by the client: title, kind, files, changes and output.

_KINDS: Final[Mapping[str, str]] = {
    "read": "read",
    "edit": "edit",
    "write": "edit",
    "bash": "execute",
    "grep": "search",
    "glob": "search",
    "todo": "think",
    "present_plan": "switch_mode",
}
_NEW_LINE: Final = re.compile(r"^@@ -\S+ \+(\d+)", re.MULTILINE)
_CONTEXT_LINES: Final = 3


class CallView:
    """Turns calls and their results into fields of `tool_call` and `tool_call_update`."""

    def __init__(self, tools: Callable[[], Sequence[Tool]], workspace: Path) -> None:
        """Show calls of *tools*; relative paths are relative to *workspace*."""
        self._tools = tools
        self._workspace = workspace

    def described(self, call: ToolCall, unsaved: str | None = None) -> dict[str, Json]:
        """Return the fields that show *call* before it runs, on a file that may be *unsaved*."""
        return {
            "toolCallId": call.id,
            "title": reveal(describe_call(self._tools(), call.name, call.input)),
            "kind": _KINDS.get(call.name, "other"),
            "rawInput": call.input,
            "locations": self._locations(call.input),
            "content": self.planned(call, unsaved),
        }

    def planned(self, call: ToolCall, unsaved: str | None = None) -> list[Json]:
        """Return the whole planned effect of *call*: the change of a file, or the command."""
        target = written_by(call.name, call.input, self._tools())
        if target and (change := planned_change(call.input, target, unsaved)):
            old = None if change.is_new else change.before
            diff = _diff(target, old, change.after)
            if reveal(change.after) != change.after and reveal(change.before) == change.before:
                return [_note("The new text holds invisible characters."), diff]
            return [diff]
        match call.input:
            case {"command": str(command)}:
                return [_note(fenced(reveal(command), "sh"))]
            case _:
                return self.fragments(call)

    def fragments(self, call: ToolCall) -> list[Json]:
        """Return the texts that an edit or write inserts, regardless of the file's content now."""
        match call.input:
            case {"path": str(path), "edits": [*edits]}:
                return [diff for edit in edits if (diff := _edit(self._absolute(path), edit))]
            case {"path": str(path), "content": str(content)}:
                return [_diff(self._absolute(path), None, content)]
            case _:
                return []

    def ended(
        self,
        call_id: str,
        result: ToolResult,
        written: dict[Path, tuple[str, str]] | None = None,
    ) -> dict[str, Json]:
        """Return the outcome of a call; a diff that was announced stays.

        It was that from the disk: a change in *written*, taken out, stands in its place.
        """
        update: dict[str, Json] = {
            "toolCallId": call_id,
            "status": "failed" if result.is_error else "completed",
        }
        details = result.details
        if isinstance(details, dict) and not result.is_error:
            update["rawOutput"] = details
            if details.get("kind") == "diff":
                path = real_path(self._absolute(str(details.get("path", ""))))
                change = written.pop(path, None) if written else None
                diff: list[Json] = [_diff(path, *change)] if change else []
                shown: dict[str, Json] = {"content": diff} if diff else {}
                return {**update, **shown, **self._changed(details)}
        return {**update, "content": shown_blocks(result.content)}

    def _changed(self, details: Mapping[str, Json]) -> dict[str, Json]:
        """Return the place of a change in a file, so that the client can go there."""
        path, found = str(details.get("path", "")), _NEW_LINE.search(str(details.get("diff", "")))
        if not found:
            return {}
        first = int(found[1])
        line = first if first <= 1 else first + _CONTEXT_LINES
        return {"locations": [{"path": str(self._absolute(path)), "line": line}]}

    def _locations(self, arguments: Json) -> list[Json]:
        match arguments:
            case {"path": str(path), "offset": int(line)} if path and line > 0:
                return [{"path": str(self._absolute(path)), "line": line}]
            case {"path": str(path)} if path:
                return [{"path": str(self._absolute(path))}]
            case _:
                return []

    def _absolute(self, path: str) -> Path:
        return self._workspace / expanded(path.removeprefix("@"))


def progress(call_id: str, partial: ToolResult) -> dict[str, Json]:
    """Return the output of a running call so far."""
    return {"toolCallId": call_id, "content": shown_blocks(partial.content)}


def _edit(path: Path, edit: Json) -> Json:
    match edit:
        case {"old": str(old), "new": str(new)}:
            return _diff(path, old, new)
        case _:
            return None


def _diff(path: Path, old: str | None, new: str) -> dict[str, Json]:
    diff: dict[str, Json] = {"type": "diff", "path": str(path), "newText": new}
    return diff if old is None else {**diff, "oldText": old}


def _note(words: str) -> dict[str, Json]:
    return {"type": "content", "content": text(words)}
