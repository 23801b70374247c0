"""Runs as requests of a Message Batch: sent together, waited for, and collected after a stop."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path

import pytest

from agent_cli.batch import RESULT, NotStarted, TaskRun
from agent_cli.batch.api_engine import ApiEngine, ApiRequest
from agent_cli.batch.folder import BatchFolder
from agent_cli.batch.run import Batch, BatchOptions, Budget
from agent_cli.contracts.errors import AgentCliError, ModelError
from agent_cli.contracts.timeline import Json
from tests.full_disks import full_disk

LOST = ModelError("the connection was lost", trouble="network", may_have_cost=True)


class ScriptedApi:
    """Ends each Message Batch after some polls; an error in `script` answers the next request.

    With `loses` the answer to a new Message Batch is lost.
    """

    def __init__(self, *script: ModelError | None, polls: int = 0, loses: bool = False) -> None:
        self.script = list(script)
        self.polls = polls
        self.loses = loses
        self.created: list[list[str]] = []
        self.asked = asyncio.Event()
        self.is_closed = False

    def _next(self) -> None:
        if self.script and (failure := self.script.pop(0)):
            raise failure

    async def create(self, requests: Mapping[str, Mapping[str, Json]], betas: Sequence[str]) -> str:
        self._next()
        self.created.append([*requests])
        if self.loses:
            raise LOST
        return str(len(self.created) - 1)

    async def has_ended(self, id: str) -> bool:
        self.asked.set()
        self._next()
        self.polls -= 1
        return self.polls < 0

    async def results(self, id: str) -> AsyncGenerator[tuple[str, Mapping[str, Json]], None]:
        for key in self.created[int(id)]:
            yield key, {"type": "succeeded", "key": key}

    async def listed(self, since_s: float, requests: int) -> AsyncGenerator[tuple[str, bool], None]:
        self.asked.set()
        self._next()
        self.polls -= 1
        for id, created in reversed([*enumerate(self.created)]):
            if len(created) == requests:
                yield str(id), self.polls < 0

    async def aclose(self) -> None:
        self.is_closed = True


class Plain:
    def request(self, work: TaskRun) -> ApiRequest:
        if "refused" in work.options:
            raise AgentCliError("not this one")
        return ApiRequest({"prompt": work.output_dir.name})

    def keep_result(self, output_dir: Path, result: Mapping[str, Json]) -> None:
        (output_dir / RESULT).write_text(json.dumps(result))

    def keep_failure(self, output_dir: Path, error: AgentCliError) -> None:
        (output_dir / RESULT).write_text(str(error))


def engine(api: ScriptedApi, tmp_path: Path) -> ApiEngine:
    async def connect() -> ScriptedApi:
        return api

    return ApiEngine(connect, Plain(), tmp_path / "journal", poll_s=0.01)


def work(tmp_path: Path, name: str, *options: str) -> TaskRun:
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    return TaskRun(options, tmp_path, folder)


def kept(tmp_path: Path, name: str) -> str:
    return (tmp_path / name / RESULT).read_text()


async def test_runs_that_start_together_are_one_message_batch(tmp_path: Path) -> None:
    """Failed polls that a later one may mend are repeated; a refused run is not sent."""
    api = ScriptedApi(None, ModelError("busy", trouble="overloaded"), polls=2)
    runs = [work(tmp_path, "a"), work(tmp_path, "b"), work(tmp_path, "c", "refused")]

    async with engine(api, tmp_path) as batch:
        await asyncio.gather(*map(batch.run, runs))

    assert len(api.created) == 1
    assert len(api.created[0]) == 2
    assert "succeeded" in kept(tmp_path, "a")
    assert kept(tmp_path, "c") == "not this one"


async def test_stopped_engine_leaves_the_answers_for_the_next_one(tmp_path: Path) -> None:
    api = ScriptedApi(polls=10**6)
    async with engine(api, tmp_path) as batch:
        running = asyncio.ensure_future(batch.run(work(tmp_path, "a")))
        await api.asked.wait()
        batch.stop()
        await running
    assert not (tmp_path / "a" / RESULT).exists()

    api.polls = 1
    async with engine(api, tmp_path) as batch:
        await batch.collect()
        await batch.collect()

    assert len(api.created) == 1
    assert "succeeded" in kept(tmp_path, "a")


async def test_message_batch_whose_answer_was_lost_is_found_by_its_requests(tmp_path: Path) -> None:
    """It is paid for. Another one of the workspace has as many requests."""
    api = ScriptedApi(polls=5, loses=True)
    api.created.append(["run-0"])

    async with engine(api, tmp_path) as batch:
        await batch.run(work(tmp_path, "a"))

    assert len(api.created) == 2
    assert api.created[1][0] in kept(tmp_path, "a")


@pytest.mark.parametrize(
    "unclear", [LOST, ModelError("internal error", trouble="server")], ids=["lost", "server"]
)
async def test_run_whose_message_batch_is_not_found_was_not_sent(
    tmp_path: Path, unclear: ModelError
) -> None:
    """It is looked for before anything is sent again: a refusal alone is repeated at once."""
    busy = ModelError("busy", trouble="overloaded")
    api = ScriptedApi(busy, unclear, busy)
    api.created.append(["run-0"])

    async with engine(api, tmp_path) as batch:
        await batch.run(work(tmp_path, "a"))

    assert len(api.created) == 1
    assert kept(tmp_path, "a") == f"not sent: {unclear}"


async def test_run_is_not_sent_again_while_nobody_knows_whether_it_was(tmp_path: Path) -> None:
    """One that has not ended may be its own; neither may the list stay unread."""
    api = ScriptedApi(None, ModelError("no such key", trouble="auth"), polls=10**6, loses=True)

    async with engine(api, tmp_path) as batch:
        with pytest.raises(AgentCliError, match="nobody knows if 1 prompt reached the API"):
            await batch.run(work(tmp_path, "a"))
        api.asked.clear()
        collecting = asyncio.ensure_future(batch.collect())
        await api.asked.wait()
        batch.stop()
        await collecting
    assert not (tmp_path / "a" / RESULT).exists()

    api.polls = 0
    async with engine(api, tmp_path) as batch:
        await batch.collect()

    assert api.created[0][0] in kept(tmp_path, "a")


class BusyApi(ScriptedApi):
    """Others of the workspace always have a Message Batch that goes on, and one that has ended."""

    looks = 0

    async def listed(self, since_s: float, requests: int) -> AsyncGenerator[tuple[str, bool], None]:
        self.looks += 1
        for look in range(self.looks, -1, -1):
            yield f"of-others-{look}", look < self.looks

    async def results(self, id: str) -> AsyncGenerator[tuple[str, Mapping[str, Json]], None]:
        self.asked.set()
        await asyncio.sleep(0)
        yield id, {}


async def test_message_batches_that_others_create_later_are_not_waited_for(tmp_path: Path) -> None:
    """The search went on for as long as they created some of the same size."""
    api = BusyApi(LOST)

    async with asyncio.timeout(20), engine(api, tmp_path) as batch:
        await batch.run(work(tmp_path, "a"))

    assert kept(tmp_path, "a") == f"not sent: {LOST}"


async def test_stop_ends_a_search_among_many_message_batches(tmp_path: Path) -> None:
    """With 300 of them Ctrl-C was without effect for minutes."""
    api = BusyApi(LOST)
    api.looks = 10**6

    async with engine(api, tmp_path) as batch:
        running = asyncio.ensure_future(batch.run(work(tmp_path, "a")))
        await api.asked.wait()
        batch.stop()
        async with asyncio.timeout(20):
            await running

    assert not (tmp_path / "a" / RESULT).exists()


async def test_answers_that_cannot_be_read_end_the_batch_and_are_not_lost(tmp_path: Path) -> None:
    """They are paid for: the runs must not count as lost and start anew."""
    api = ScriptedApi(None, ModelError("no such key", trouble="auth"))

    async with engine(api, tmp_path) as batch:
        with pytest.raises(
            AgentCliError, match=r"cannot be read \(no such key\); the same command"
        ):
            await batch.run(work(tmp_path, "a"))
        await batch.collect()

    assert "succeeded" in kept(tmp_path, "a")


async def test_nothing_is_sent_that_a_full_disk_does_not_note(tmp_path: Path) -> None:
    """The next note begins a line of its own."""
    journal = tmp_path / "journal"
    # Larger than the files that others write meanwhile.
    journal.write_text("x" * 5_000_000 + "\n")
    api = ScriptedApi(polls=1_000_000)

    async with engine(api, tmp_path) as batch:
        with full_disk(journal, free=5), pytest.raises(NotStarted, match=r"cannot be writ"):
            await batch.run(work(tmp_path, "a"))
        running = asyncio.ensure_future(batch.run(work(tmp_path, "b")))
        await api.asked.wait()
        batch.stop()
        await running
    assert len(api.created) == 1

    api.polls = 0
    async with engine(api, tmp_path) as batch:
        await batch.collect()
    assert "succeeded" in kept(tmp_path, "b")


@pytest.mark.parametrize("half", [b'{"batch": "9", "ru', b"\0\xff\0", b"{"])
async def test_half_note_of_a_power_failure_does_not_hide_the_next_one(
    tmp_path: Path, half: bytes
) -> None:
    """The Message Batch of a note that cannot be read is paid for, and would be sent again."""
    (tmp_path / "journal").write_bytes(half)
    api = ScriptedApi(polls=1_000_000)
    async with engine(api, tmp_path) as batch:
        running = asyncio.ensure_future(batch.run(work(tmp_path, "a")))
        await api.asked.wait()
        batch.stop()
        await running

    api.polls = 0
    async with engine(api, tmp_path) as batch:
        await batch.collect()

    assert "succeeded" in kept(tmp_path, "a")


async def test_note_without_its_line_end_counts_beside_the_next_one(tmp_path: Path) -> None:
    api = ScriptedApi(polls=1_000_000)
    for name in ("a", "b"):
        api.asked.clear()
        async with engine(api, tmp_path) as batch:
            running = asyncio.ensure_future(batch.run(work(tmp_path, name)))
            await api.asked.wait()
            batch.stop()
            await running
        journal = tmp_path / "journal"
        journal.write_bytes(journal.read_bytes().rstrip(b"\n"))

    api.polls = 0
    async with engine(api, tmp_path) as batch:
        await batch.collect()

    assert "succeeded" in kept(tmp_path, "a")
    assert "succeeded" in kept(tmp_path, "b")


async def test_connection_is_closed_if_earlier_answers_cannot_be_had(tmp_path: Path) -> None:
    with BatchFolder(tmp_path / "out") as folder:
        (tmp_path / "journal").write_text(json.dumps({"batch": "0", "runs": {"a": "/nowhere"}}))
        api = ScriptedApi(ModelError("no such key", trouble="auth"))
        batch = Batch(
            [], folder, engine(api, tmp_path), Budget(0), BatchOptions(), lambda _result: None
        )

        with pytest.raises(AgentCliError, match="no such key"):
            await batch.run()

    assert api.is_closed
