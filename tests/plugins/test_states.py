"""Plugins' state: typed, validated, kept in the conversation's own record."""

import pytest
from pydantic import BaseModel, field_validator

from agent_cli.contracts.errors import PluginError
from agent_cli.contracts.events import Event
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import CustomOutput, Json, Prompt
from agent_cli.contracts.tooling import ToolContext
from agent_cli.core.conversation import Conversation
from agent_cli.plugins.api import Plugin, PluginContext, PluginState
from agent_cli.plugins.states import ENTRY, PluginStates
from tests.fakes import calls, does, notices, says, tool, tool_use
from tests.plugins.contributing import Contributing, tool_results
from tests.tables import each_row


class Notes(BaseModel):
    lines: list[str] = []
    limit: int = 3


NOTES = PluginState("notes", Notes)


def states(
    conversation: Conversation, kind: PluginState[Notes] = NOTES, events: list[Event] | None = None
) -> PluginStates:
    return PluginStates(conversation, {"notes": kind}, ([] if events is None else events).append)


def written(conversation: Conversation) -> list[Json]:
    """Return the recorded entries with state, in order."""
    outputs = [output for prompt in conversation.prompts for output in prompt.output]
    return [o.data for o in outputs if isinstance(o, CustomOutput) and o.name == ENTRY]


def test_plugin_state_is_typed_and_starts_with_its_defaults() -> None:
    """S2-42: a plugin reads and writes its own model."""
    conversation = Conversation()
    state = states(conversation)
    assert NOTES.read(state) == Notes()

    NOTES.write(state, Notes(lines=["a"]))

    assert NOTES.read(state) == NOTES.read(states(conversation)) == Notes(lines=["a"])
    assert dict(state) == {"notes": {"lines": ["a"], "limit": 3}}


def test_invalid_state_write_names_plugin_and_field() -> None:
    """S2-42: the write raises, and neither the state nor the record has changed."""
    conversation = Conversation()
    state = states(conversation)
    notes = Notes()
    notes.limit = "many"  # type: ignore[assignment]  # an untyped plugin would do this

    with pytest.raises(PluginError, match=r"plugin 'notes': .*limit: Input should be a valid int"):
        NOTES.write(state, notes)
    with pytest.raises(PluginError, match=r"'notes'.*lines\.0"):
        state["notes"] = {"lines": [1]}

    assert (NOTES.read(state), written(conversation)) == (Notes(), [])


async def test_invalid_state_write_in_prepare_ends_the_run() -> None:
    """S2-42: a plugin must not continue unnoticed after an invalid write."""

    def prepare(ctx: PluginContext) -> None:
        ctx.state["notes"] = {"limit": "many"}

    run = Contributing([Plugin(name="notes", prepare=prepare, state=NOTES)])
    result = await run.agent.prompt("go")

    assert result.stop_reason == "error"
    assert "plugin 'notes': its state does not fit: limit" in (result.error or "")


async def test_invalid_state_write_of_a_tool_becomes_its_error_result() -> None:
    """S2-42: the model reads the sentence; the state stays unchanged."""

    async def spoil(context: ToolContext) -> str:
        context.state["notes"] = {"limit": "many"}
        return "never"

    run = Contributing(
        [Plugin(name="notes", tools=[tool("spoil", does(spoil))], state=NOTES)],
        calls(tool_use("spoil")),
        says("done"),
    )
    await run.prompt()

    [result] = tool_results(run)
    assert "plugin 'notes': its state does not fit: limit" in result
    assert written(run.agent.conversation) == []


def test_only_changed_plugin_state_is_recorded() -> None:
    """The record does not grow in rounds where a plugin writes the same value."""
    conversation = Conversation()
    for _round in range(3):
        NOTES.write(states(conversation), Notes(lines=["a"]))

    assert written(conversation) == [
        {"plugin": "notes", "version": 1, "state": {"lines": ["a"], "limit": 3}}
    ]


def test_plugin_state_changed_in_place_is_ignored_until_written() -> None:
    """Otherwise a change would be visible in this round and lost after a restart."""
    conversation = Conversation()
    state = states(conversation)
    state["free"] = {"n": 1}

    copy = state["free"]
    assert isinstance(copy, dict)
    copy["n"] = 2

    assert state["free"] == states(conversation)["free"] == {"n": 1}


def test_fork_and_rewind_restore_the_plugin_state_of_that_point() -> None:
    """S2-42: state is part of the record, so a cut of the record cuts the state."""
    conversation = Conversation()
    for line in ("one", "two"):
        conversation.begin(UserMessage.of(line))
        NOTES.write(states(conversation), Notes(lines=[line]))
        conversation.complete()

    first: list[Prompt] = list(conversation.prompts[:1])

    assert NOTES.read(states(Conversation(first))).lines == ["one"]
    assert NOTES.read(states(conversation)).lines == ["two"]


def test_plugin_state_can_be_deleted() -> None:
    """Deleted state is gone in the next round and after a restart."""
    conversation = Conversation()
    state = states(conversation)
    state["free"] = 1
    del state["free"]

    assert ("free" in state, len(state), "free" in states(conversation)) == (False, 0, False)
    with pytest.raises(KeyError):
        del state["free"]


def older(value: Json, version: int = 1) -> Conversation:
    """Return a conversation that holds *value* as the state of an older version."""
    conversation = Conversation()

    class Anything(BaseModel, extra="allow"):
        pass

    kinds = {"notes": PluginState("notes", Anything, version=version)}
    PluginStates(conversation, kinds, lambda _event: None)["notes"] = value
    return conversation


def test_old_plugin_state_is_migrated_once() -> None:
    """S2-42: the hook gets the old value and its version; the new one is recorded."""
    conversation = older({"text": "a\nb"})
    seen: list[object] = []

    def migrate(old: dict[str, Json], version: int) -> dict[str, Json]:
        seen.append((old, version))
        return {"lines": [*str(old["text"]).splitlines()]}

    kind = PluginState("notes", Notes, version=2, migrate=migrate)
    events: list[Event] = []

    for _load in range(2):
        assert kind.read(states(conversation, kind, events)).lines == ["a", "b"]

    assert seen == [({"text": "a\nb"}, 1)]
    assert events == []


def boom(_old: dict[str, Json], _version: int) -> dict[str, Json]:
    raise LookupError("no such key")


@each_row(
    ("kind", "why"),
    [
        (PluginState("notes", Notes, version=2), "cannot read its state of another version"),
        (PluginState("notes", Notes, version=2, migrate=boom), "could not migrate its state: no"),
        (
            PluginState("notes", Notes, version=2, migrate=lambda old, _version: old),
            "its state does not fit: limit",
        ),
        (PluginState("notes", Notes), "its state does not fit: limit"),
    ],
    ids=["no hook", "hook raises", "hook's value does not fit", "same version does not fit"],
)
def test_unreadable_plugin_state_is_reset_with_one_notice(
    kind: PluginState[Notes], why: str
) -> None:
    """S2-42: the plugin starts with defaults; the user is told once, not in every round."""
    conversation = older({"limit": "many"})
    events: list[Event] = []

    for _load in range(2):
        assert kind.read(states(conversation, kind, events)) == Notes()

    [notice] = notices(events)
    assert why in notice
    assert notice.endswith("; what was kept of version 1 is reset")


class Fussy(BaseModel):
    limit: int = 0

    @field_validator("limit")
    @classmethod
    def _known(cls, _value: int) -> int:
        raise LookupError("no such limit")


def test_state_that_makes_a_validator_of_its_plugin_fail_is_reset() -> None:
    """Every prompt of the resumed conversation would end with that exception."""
    conversation = older({"limit": 9})
    events: list[Event] = []
    kind = PluginState("notes", Fussy)

    assert kind.read(PluginStates(conversation, {"notes": kind}, events.append)) == Fussy()

    [notice] = notices(events)
    assert notice == "plugin 'notes': no such limit; what was kept of version 1 is reset"


def test_state_under_a_free_name_is_older_than_every_version_of_a_plugin() -> None:
    """Tools shared that name before the plugin was there, which checked nothing of it."""
    conversation = Conversation()
    PluginStates(conversation, {}, lambda _event: None)["notes"] = {"text": "a"}
    seen: list[object] = []

    def migrate(old: dict[str, Json], version: int) -> dict[str, Json]:
        seen.append((old, version))
        return {"lines": [old["text"]]}

    kind = PluginState("notes", Notes, version=1, migrate=migrate)

    assert kind.read(states(conversation, kind)).lines == ["a"]

    assert seen == [({"text": "a"}, 0)]


def test_state_of_a_missing_plugin_is_kept() -> None:
    """A plugin uninstalled for a day finds its state again."""
    conversation = older({"limit": 9})

    PluginStates(conversation, {}, lambda _event: None)["other"] = 1

    assert NOTES.read(states(conversation)).limit == 9
