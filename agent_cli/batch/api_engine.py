"""Answer tasks through the Message Batches API: one request each, no tools, half the price.

The runs that start together are sent as one Message Batch. That they are about to be sent is
written down first, and its id afterwards. A batch that is stopped or killed meanwhile finds the
answers there when it is started again: without an id, among the latest Message Batches, by the
random word in their requests. The API shows that word only in results, so one that may be ours is
waited for.
"""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
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
_FAILED_POLLS_MAX: Final = 20
# A Message Batch may be listed a moment after its request arrived.
_LOOKS_MIN: Final = 4
_CLOCKS_DIFFER_S: Final = 86_400.0


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

    def listed(self, since_s: float, requests: int) -> AsyncGenerator[tuple[str, bool], None]:
        """Yield those created since a Unix time with that many requests: id, whether ended."""
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


@dataclass(frozen=True, slots=True)
class _Sent:
    """Runs that were sent, or perhaps sent.

    Attributes:
        runs: Their output directories, by custom id.
        at_s: The time before they were sent, by our clock.
        batch: The id of their Message Batch; "" if nobody knows whether it was created.
    """

    runs: Mapping[str, Path]
    at_s: float = 0.0
    batch: str = ""


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
        for sent in self._noted():
            left = {key: path for key, path in sent.runs.items() if not (path / RESULT).exists()}
            if not left or self._stopped.is_set():
                continue
            if sent.batch:
                await self._finish(sent.batch, left)
            else:
                await self._settle(sent, "the batch was killed before it was sent")

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
        word = secrets.token_hex(8)
        try:
            await self._answered({f"{word}-{number}": each for number, each in enumerate(part)})
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
        sent = _Sent(paths, time.time())
        try:
            self._note(sent)
        except AgentCliError as error:
            raise NotStarted(str(error)) from error
        try:
            id = await self._created(requests, [*betas])
        except ModelError as error:
            if _is_certain(error):
                self._fail(sent, error)
            else:
                await self._settle(sent, str(error))
            return
        self._note(replace(sent, batch=id))
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
            ModelError: It was not created; perhaps it was, unless `_is_certain`.
        """
        for number in range(1, _TRIES_MAX + 1):
            try:
                return await (await self._api()).create(requests, betas)
            except ModelError as error:
                is_safe = error.is_passing and _is_certain(error)
                if not is_safe or number == _TRIES_MAX or await self._paused(number):
                    raise
        raise AssertionError("a try returns or raises")

    async def _settle(self, sent: _Sent, reason: str) -> None:
        """Find out whether *sent* was created: if so, write its results, else the *reason*.

        Raises:
            AgentCliError: The API cannot be asked.
        """
        prompts = counted(len(sent.runs), "prompt")
        self._tell(f"{prompts} perhaps sent: looking for the Message Batch, to pay for it once")
        try:
            id = await self._found(sent)
        except ModelError as error:
            raise AgentCliError(
                f"nobody knows if {prompts} reached the API: its Message Batches cannot be listed"
                f" ({error}); the same command looks again, another --output-dir sends again"
            ) from error
        if id:
            self._note(replace(sent, batch=id))
            await self._finish(id, sent.runs)
        elif not self._stopped.is_set():
            self._fail(sent, ModelError(f"not sent: {reason}", trouble="network"))

    def _fail(self, sent: _Sent, error: ModelError) -> None:
        for path in sent.runs.values():
            self._translate.keep_failure(path, error)

    async def _found(self, sent: _Sent) -> str:
        """Return the id of the Message Batch of *sent*; "" if there is none, or when stopped.

        Raises:
            ModelError: The API cannot be asked.
        """
        since_s, number = sent.at_s - _CLOCKS_DIFFER_S, len(sent.runs)
        others: set[str] = set()
        perhaps: set[str] = set()
        looks = failures = 0
        while perhaps or failures or looks < _LOOKS_MIN:
            if (looks or failures) and await self._paused(looks + failures):
                return ""
            try:
                going_on: set[str] = set()
                async with aclosing((await self._api()).listed(since_s, number)) as listed:
                    async for id, has_ended in listed:
                        if self._stopped.is_set():
                            return ""
                        # Others may create one after the other: the late ones are theirs.
                        if id in others or (looks >= _LOOKS_MIN and id not in perhaps):
                            continue
                        if not has_ended:
                            going_on.add(id)
                            continue
                        async with aclosing((await self._api()).results(id)) as results:
                            if (await anext(results, ("",)))[0] in sent.runs:
                                return id
                        others.add(id)
                perhaps, looks, failures = going_on, looks + 1, 0
            except ModelError as error:
                failures += 1
                if not error.is_passing or failures == _FAILED_POLLS_MAX:
                    raise
        return ""

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
                if not error.is_passing or failures == _FAILED_POLLS_MAX:
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

    def _noted(self) -> Sequence[_Sent]:
        found: dict[Path, _Sent] = {}
        with suppress(FileNotFoundError):
            for line in self._journal.read_bytes().splitlines():
                with suppress(ValueError):  # a line that a crash cut off, or filled with anything
                    noted = json.loads(line)
                    runs = {key: Path(path) for key, path in noted["runs"].items()}
                    sent = _Sent(runs, noted.get("at", 0.0), noted["batch"])
                    found[next(iter(runs.values()))] = sent  # a later line of the same runs counts
        return [*found.values()]

    def _note(self, sent: _Sent) -> None:
        runs = {key: str(path) for key, path in sent.runs.items()}
        noted = {"batch": sent.batch, "at": sent.at_s, "runs": runs}
        append_line(self._journal, json.dumps(noted).encode())


def _is_certain(error: ModelError) -> bool:
    """Return whether a request for a Message Batch that ended so has created none."""
    return not error.may_have_cost and error.trouble != "server"


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
