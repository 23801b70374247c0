"""Answer tasks through the Message Batches API: one request each, no tools, half the price.

The runs that start together are sent as one Message Batch, whose id is written down. A batch that
is stopped or killed meanwhile finds the answers there when it is started again.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Final, Protocol, Self

from agent_cli.batch import RESULT, NotStarted, TaskRun
from agent_cli.batch.folder import append_line
from agent_cli.contracts.errors import AgentCliError, ModelError
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.wording import counted
from agent_cli.system.records import dataclass, field

REQUESTS_MAX: Final = 10_000
"""Requests of one Message Batch; the API takes ten times as many."""
BYTES_MAX: Final = 128 * 1024 * 1024  # the API takes twice as many
POLL_S: Final = 5.0
_POLL_MAX_S: Final = 60.0
_GATHER_S: Final = 0.5
_TRIES_MAX: Final = 5
_PASSING: Final = frozenset({"rate_limit", "overloaded", "server", "network"})
_FAILED_POLLS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """The parameters of one request, and the beta features that they use."""

    params: Mapping[str, Json]
    betas: Sequence[str] = ()


class Translator(Protocol):
    """Port between runs and requests."""

    def request(self, work: TaskRun) -> ApiRequest:
        """Return the request of *work*; raises AgentCliError if it must not be sent."""
        ...

    def keep_result(self, output_dir: Path, result: Mapping[str, Json]) -> None:
        """Write the result of a run for the API's *result* of its request."""
        ...

    def keep_failure(self, output_dir: Path, error: AgentCliError) -> None:
        """Write the result of a run whose request was not answered."""
        ...


class Batches(Protocol):
    """Port to the API; see `MessageBatches` in `providers`. All raise ModelError."""

    async def create(self, requests: Mapping[str, Mapping[str, Json]], betas: Sequence[str]) -> str:
        """Create a Message Batch of the parameters by custom id; return its id."""
        ...

    async def has_ended(self, id: str) -> bool:
        """Return whether each of its requests has a result."""
        ...

    def results(self, id: str) -> AsyncGenerator[tuple[str, Mapping[str, Json]], None]:
        """Yield the custom id and the result of each request."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


@dataclass(slots=True, eq=False)
class _Waiting:
    """A run whose request is to be sent, and its end."""

    work: TaskRun
    request: ApiRequest
    ended: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class ApiEngine:
    """Each run is a request of a Message Batch; see `batch.Engine`."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Batches]],
        translate: Translator,
        journal: Path,
        *,
        tell: Callable[[str], None] = lambda _text: None,
        poll_s: float = POLL_S,
    ) -> None:
        """Connect to nothing yet.

        Args:
            connect: Returns the connection to the API.
            translate: Makes requests of runs, and results of answers.
            journal: The file that says which runs are in which Message Batch.
            tell: Called with a sentence for the user when requests were sent.
            poll_s: The wait before the API is asked whether one has ended; then longer.
        """
        self.jobs = REQUESTS_MAX
        self.copies = False
        self._connect = connect
        self._translate = translate
        self._journal = journal
        self._tell = tell
        self._poll_s = poll_s
        self._queue: list[_Waiting] = []
        self._is_gathering = False
        self._stopped = asyncio.Event()
        self._batches: Batches | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_failure: object) -> None:
        if self._batches is not None:
            await self._batches.aclose()

    async def collect(self) -> None:
        """Wait for the answers to earlier requests, and write their results."""
        for id, runs in self._noted():
            left = {key: path for key, path in runs.items() if not (path / RESULT).exists()}
            if left and not self._stopped.is_set():
                await self._finish(id, left)

    async def run(self, work: TaskRun) -> None:
        """Have *work* answered; return without a result if the batch is stopped meanwhile."""
        try:
            request = await asyncio.to_thread(self._translate.request, work)
        except AgentCliError as error:
            self._translate.keep_failure(work.output_dir, error)
            return
        if self._stopped.is_set():
            raise NotStarted("it was stopped before it began")
        waiting = _Waiting(work, request)
        self._queue.append(waiting)
        if not self._is_gathering:
            self._is_gathering = True
            await self._send_all(await self._gathered())
        await waiting.ended

    def stop(self) -> None:
        """Stop waiting: sent requests are answered anyway, and collected by the next batch."""
        self._stopped.set()

    async def _gathered(self) -> Sequence[_Waiting]:
        """Return the runs that start now, once no more join them: they are sent together."""
        try:
            known = 0
            while len(self._queue) > known:
                known = len(self._queue)
                await asyncio.sleep(_GATHER_S)
        finally:
            self._is_gathering = False
            queue, self._queue = self._queue, []
        return queue

    async def _send_all(self, queue: Sequence[_Waiting]) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for part in _parts(queue):
                    tasks.create_task(self._send(part))
        finally:
            for each in queue:
                each.ended.cancel()  # of no effect where it has ended

    async def _send(self, part: Sequence[_Waiting]) -> None:
        """Send one Message Batch and wait for its end; the runs end with it."""
        fault: AgentCliError | None = None
        try:
            await self._answered({f"run-{number}": each for number, each in enumerate(part)})
        except AgentCliError as error:
            fault = error
        for each in part:
            if fault:
                each.ended.set_exception(fault)
            else:
                each.ended.set_result(None)

    async def _answered(self, runs: Mapping[str, _Waiting]) -> None:
        betas = dict.fromkeys(beta for each in runs.values() for beta in each.request.betas)
        requests = {key: each.request.params for key, each in runs.items()}
        paths = {key: each.work.output_dir for key, each in runs.items()}
        try:
            id = await self._created(requests, [*betas])
        except ModelError as error:
            for path in paths.values():
                self._translate.keep_failure(path, error)
            return
        self._note(id, paths)
        self._tell(
            f"{counted(len(paths), 'prompt')} sent as Message Batch {id}, answered within a day;"
            " Ctrl-C leaves it to the API, and the same command collects the answers"
        )
        await self._finish(id, paths)

    async def _created(
        self, requests: Mapping[str, Mapping[str, Json]], betas: Sequence[str]
    ) -> str:
        """Create a Message Batch; repeat what cannot have created one.

        Raises:
            ModelError: It was not created.
        """
        for number in range(1, _TRIES_MAX + 1):
            try:
                return await (await self._api()).create(requests, betas)
            except ModelError as error:
                is_certain = error.trouble in _PASSING and not error.may_have_cost
                if not is_certain or number == _TRIES_MAX or await self._paused(number):
                    raise
        raise AssertionError("a try returns or raises")

    async def _finish(self, id: str, left: Mapping[str, Path]) -> None:
        """Wait for the end of a Message Batch and write the results of the runs *left*.

        Raises:
            AgentCliError: The API cannot be asked.
        """
        failures = polls = 0
        while True:
            try:
                api = await self._api()
                if await api.has_ended(id):
                    async with aclosing(api.results(id)) as results:
                        async for key, result in results:
                            if path := left.get(key):
                                self._translate.keep_result(path, result)
                    return
                failures = 0
            except ModelError as error:
                failures += 1
                if error.trouble not in _PASSING or failures == _FAILED_POLLS_MAX:
                    message = f"the answers of Message Batch {id} cannot be read ({error})"
                    raise AgentCliError(f"{message}; the same command goes on") from error
            if await self._paused(polls):
                return
            polls += 1

    async def _paused(self, number: int) -> bool:
        """Wait, longer with each *number*; return whether the batch was stopped."""
        with suppress(TimeoutError):
            async with asyncio.timeout(min(self._poll_s * 1.5 ** min(number, 20), _POLL_MAX_S)):
                await self._stopped.wait()
        return self._stopped.is_set()

    async def _api(self) -> Batches:
        if self._batches is None:
            self._batches = await self._connect()
        return self._batches

    def _noted(self) -> Iterator[tuple[str, dict[str, Path]]]:
        with suppress(FileNotFoundError):
            for line in self._journal.read_bytes().splitlines():
                with suppress(ValueError):  # a line that a crash cut off, or filled with anything
                    found = json.loads(line)
                    yield found["batch"], {key: Path(path) for key, path in found["runs"].items()}

    def _note(self, id: str, runs: Mapping[str, Path]) -> None:
        noted = {"batch": id, "runs": {key: str(path) for key, path in runs.items()}}
        try:
            append_line(self._journal, json.dumps(noted).encode())
        except AgentCliError as error:  # its answers can only be had by this id now
            raise AgentCliError(f"Message Batch {id} was sent, but {error}") from error


def _parts(queue: Sequence[_Waiting]) -> Iterator[Sequence[_Waiting]]:
    """Split the runs into parts that each fit into one Message Batch."""
    part: list[_Waiting] = []
    size = 0
    for each in queue:
        own = len(json.dumps(each.request.params))
        if part and size + own > BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(each)
        size += own
    yield part
