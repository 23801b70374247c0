"""Tools that run concurrently update one state without undoing each other's work."""

import asyncio
from collections.abc import Callable

import pytest

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import ToolContext
from agent_cli.core.call_state import CallState
from agent_cli.core.loop_config import LoopConfig
from tests.fakes import LIMIT_S, calls, does, says, scripted_agent, texts, tool, tool_use
from tests.tables import each_row


def written(
    start: Json, *changes: Callable[[dict[str, Json]], object], name: str = "s"
) -> dict[str, Json]:
    """Let as many calls as there are *changes* read first and write afterwards."""
    shared: dict[str, Json] = {} if start is None else {name: start}
    views = [CallState(shared) for _ in changes]
    values: list[dict[str, Json]] = []
    for view in views:
        value = view.get(name, {})
        assert isinstance(value, dict)
        values.append({**value})
    for view, value, change in zip(views, values, changes, strict=True):
        change(value)
        view[name] = value
    return shared


@each_row("start", [None, {}, {"kept": 1}])
def test_writes_to_different_keys_of_one_value_are_merged(start: Json) -> None:
    """C24: the second write used to restore the old values of the first one's keys."""
    shared = written(start, lambda v: v.update(a=1), lambda v: v.update(b={"x": 2}))

    assert shared == {"s": {**(start or {}), "a": 1, "b": {"x": 2}}}  # type: ignore[dict-item]


def test_writes_to_nested_keys_are_merged() -> None:
    """C24: keys are merged at any depth."""
    shared = written(
        {"deep": {"a": 1, "b": 1, "c": 1}},
        lambda v: v.update(deep={"a": 2, "b": 1, "c": 1}),
        lambda v: v.update(deep={"a": 1, "b": 3}),
    )

    assert shared == {"s": {"deep": {"a": 2, "b": 3}}}


def test_items_appended_by_several_calls_are_kept_in_write_order() -> None:
    """C24: appending is the most common use of a list."""
    shared = written(
        {"lines": ["x"]},
        lambda v: v.update(lines=["x", "a"]),
        lambda v: v.update(lines=["x", "b", "c"]),
        lambda v: v.update(lines=["x", "a"]),
    )

    assert shared == {"s": {"lines": ["x", "a", "b", "c", "a"]}}


@each_row("value", [True, "done", None, {"a": 1}, ["a"]])
def test_equal_changes_by_two_calls_are_no_conflict(value: Json) -> None:
    """A flag set by both calls is set."""
    shared = written({"n": False}, lambda v: v.update(n=value), lambda v: v.update(n=value))

    assert shared == {"s": {"n": value}}


@each_row(
    ("start", "first", "second", "path"),
    [
        ({"n": 1}, {"n": 2}, {"n": 3}, "s.n"),
        ({"n": 1}, {"n": 2}, {"n": 2}, "s.n"),
        ({"n": 1}, {}, {"n": 3}, "s.n"),
        ({"n": 1}, {"n": 2}, {}, "s.n"),
        ({"n": [1]}, {"n": []}, {"n": [1, 2]}, "s.n"),
        ({"n": [1]}, {"n": [1, 3]}, {"n": []}, "s.n"),
        ({"n": {"m": 1}}, {"n": 2}, {"n": {"m": 3}}, "s.n"),
        ({}, {"n": {"m": 1}}, {"n": {"m": 2}}, "s.n.m"),
        ({}, {"n": 1}, {"n": [2]}, "s.n"),
    ],
)
def test_write_to_a_key_changed_by_another_call_is_an_error(
    start: Json, first: dict[str, Json], second: dict[str, Json], path: str
) -> None:
    """C24: the other call's change used to be lost silently; the error names the key."""

    shared: dict[str, Json] = {"s": start}
    one, two = CallState(shared), CallState(shared)
    assert one["s"] == two["s"] == start
    one["s"] = first

    with pytest.raises(ToolError, match=rf"^The state '{path}' was changed by another call"):
        two["s"] = second

    assert shared == {"s": first}
    assert two["s"] == first
    two["s"] = second  # read again, it is this call's to change
    assert shared == {"s": second}


def test_writing_a_value_without_reading_it_replaces_the_value() -> None:
    """C24: no older value was read, so none is restored by mistake."""
    shared: dict[str, Json] = {"s": {"a": 1}}
    one, two = CallState(shared), CallState(shared)

    one["s"] = {"b": 2}
    two["s"] = {"c": 3}

    assert shared == {"s": {"c": 3}}


def test_call_may_write_a_key_repeatedly_and_change_a_read_value_in_place() -> None:
    """A call's own earlier write is no conflict."""
    shared: dict[str, Json] = {"s": {"n": [1]}}
    view = CallState(shared)
    value = view["s"]
    assert isinstance(value, dict) and isinstance(value["n"], list)

    value["n"].append(2)
    view["s"] = value
    assert shared == {"s": {"n": [1, 2]}}
    view["s"] = {"n": [1, 2, 3]}
    view["s"] = {"n": []}

    assert shared == {"s": {"n": []}}


@each_row(("before", "after"), [(1, True), (True, 1), (0, False), (1, 1.0), ([1], [True])])
def test_a_write_of_another_type_is_a_change(before: Json, after: Json) -> None:
    """For Python `True == 1`, so the write was dropped."""
    shared: dict[str, Json] = {"s": {"n": before}}
    view = CallState(shared)
    assert view["s"] == {"n": before}

    view["s"] = {"n": after}

    assert repr(shared) == repr({"s": {"n": after}})


@each_row(
    "delete",
    [
        lambda state: state.__delitem__("s"),
        lambda state: state.pop("s"),
        lambda state: state.pop("s", None),
        lambda state: state.popitem(),
        lambda state: state.clear(),
    ],
    ids=["del", "pop", "pop with a default", "popitem", "clear"],
)
def test_deleting_what_another_call_changed_is_an_error(
    delete: Callable[[CallState], object],
) -> None:
    """The other call's write was undone; read again, the value is this call's to delete."""
    shared: dict[str, Json] = {"s": 1, "unread": 1}
    one, two = CallState(shared), CallState(shared)
    assert one["s"] == two["s"] == 1
    one["s"] = 2
    one["unread"] = 2

    with pytest.raises(ToolError, match=r"^The state 's' was changed by another call"):
        delete(two)

    assert shared == {"s": 2, "unread": 2}
    del two["unread"]
    assert two["s"] == 2
    delete(two)  # read again, it is this call's to delete
    assert shared == {}


def test_looking_for_a_key_takes_in_no_write_of_another_call() -> None:
    """`if "n" in state: state["n"] = n + 1` lost the count of the other call."""
    shared: dict[str, Json] = {"n": 1}
    one, other = CallState(shared), CallState(shared)
    assert one["n"] == 1
    other["n"] = 2

    assert "n" in one
    assert "other" not in one
    with pytest.raises(ToolError):
        one["n"] = 5


def test_writing_back_what_another_call_deleted_is_an_error() -> None:
    """It failed with an AssertionError, of which the model read nothing."""
    shared: dict[str, Json] = {"k": 1}
    first, second = CallState(shared), CallState(shared)
    assert (first["k"], second["k"]) == (1, 1)
    del first["k"]

    with pytest.raises(ToolError, match="'k' was changed by another call"):
        second["k"] = 1


def test_call_state_reads_lists_and_deletes_like_a_mapping() -> None:
    """A deleted key is missing afterwards."""
    shared: dict[str, Json] = {"a": 1, "b": 2}
    view = CallState(shared)
    del view["a"]

    assert (list(view), len(view), view.get("a"), "b" in view) == (["b"], 1, None, True)
    with pytest.raises(KeyError):
        del view["a"]
    with pytest.raises(KeyError):
        view.pop("a")
    assert view.pop("a", None) is None
    view["a"] = 3
    assert shared == {"a": 3, "b": 2}
    assert view.pop("a", None) == 3
    assert view.popitem() == ("b", 2)
    with pytest.raises(KeyError):
        view.popitem()


@each_row("steps", [0, 3])
async def test_concurrent_calls_lose_no_state_update(steps: int) -> None:
    """C24: each reads, works for a while and writes."""
    together = asyncio.Barrier(3)

    async def note(on_update: ToolContext) -> str:
        found = on_update.state.get("notes", {})
        assert isinstance(found, dict)
        await together.wait()
        for _ in range(steps):
            await asyncio.sleep(0)
        on_update.state["notes"] = {**found, on_update.tool_call_id: "seen"}
        return "noted"

    options = LoopConfig(state={"notes": {"old": "kept"}})
    uses = [tool_use("note", {}, f"t{n}") for n in range(3)]
    agent, _, _ = scripted_agent(
        calls(*uses), says("ok"), tools=[tool("note", does(note))], options=options
    )

    await asyncio.wait_for(agent.prompt("go"), LIMIT_S)

    assert options.state == {"notes": {"old": "kept", "t0": "seen", "t1": "seen", "t2": "seen"}}


async def test_concurrent_increments_of_a_counter_lose_no_count() -> None:
    """C24: the second call is told to retry, and then succeeds."""
    together = asyncio.Barrier(2)

    async def count(on_update: ToolContext) -> str:
        before = on_update.state.get("n", 0)
        assert isinstance(before, int)
        if before == 0:
            await together.wait()
        on_update.state["n"] = before + 1
        return f"{before + 1}"

    options = LoopConfig(state={"n": 0})
    agent, _, _ = scripted_agent(
        calls(tool_use("count", {}, "t1"), tool_use("count", {}, "t2")),
        calls(tool_use("count", {}, "t3")),
        says("ok"),
        tools=[tool("count", does(count))],
        options=options,
    )

    result = await asyncio.wait_for(agent.prompt("go"), LIMIT_S)

    answers = texts(result.messages)
    assert sorted([answers["t1"], answers["t2"]]) == [
        "1",
        "The state 'n' was changed by another call that ran beside this one. Call again.",
    ]
    assert (answers["t3"], options.state) == ("2", {"n": 2})
