"""`agent-cli batch TASKS.jsonl`: collect the options, run the tasks, print the progress."""

import math
import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from agent_cli.app.arguments import Arguments
from agent_cli.app.option_table import OPTIONS
from agent_cli.app.startup import StartupContext
from agent_cli.batch import Engine, LocalEngine
from agent_cli.batch.folder import RESULTS, BatchFolder
from agent_cli.batch.ray_engine import CONNECT_LIMIT_S, CPUS_PER_RUN, RayEngine, ray_address
from agent_cli.batch.ray_worker import PAUSE_VARIABLE
from agent_cli.batch.run import ALIKE, Batch, BatchOptions, Budget
from agent_cli.batch.tasks import Task, read_tasks
from agent_cli.cli.batch_api import api_engine, check_api_tasks
from agent_cli.cli.conversations import ready
from agent_cli.cli.one_run import run_options
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.wording import counted, dollars, in_microdollars
from agent_cli.settings import Override
from agent_cli.system import stop_signals
from agent_cli.system.event_loop import run_loop
from agent_cli.system.paths import expanded, shown
from agent_cli.system.programs import users_path
from agent_cli.system.records import dataclass
from agent_cli.system.sanitize import reveal
from agent_cli.system.shapes import is_sequence
from agent_cli.terminal.views.progress import labelled
from agent_cli.terminal.writer import print_complaint
from agent_cli.trust.store import TrustStore

# The fields of `Arguments` passed on to each run.
_HANDED_ON: Final = (
    *("settings_file", "system_prompt", "append_system_prompt", "add_dirs", "trust", "verbose"),
    *("time_limit_s", "tokens_max", "json_schema"),
)
_NOT_HERE: Final = (
    *(("--continue", "continue_session"), ("--resume", "resume"), ("--fork", "fork")),
    *(("--record", "record"), ("--replay", "replay")),
)
_OF_RAY: Final = (
    *(("--ray-address", "ray_address"), ("--ray-cpus", "ray_cpus"), ("--ray-wait", "ray_wait_s")),
    ("--ray-copy", "ray_copy"),
)
# They name files, which a node that shares none does not have.
_OF_FILES: Final = (
    *(("--settings", "settings_file"), ("--json-schema", "json_schema"), ("--add-dir", "add_dirs")),
    *(("--record", "record"), ("--replay", "replay")),
)
_FAILED, _LIMIT = 1, 4
_TRY_AGAIN: Final = 75  # as sendmail's EX_TEMPFAIL: the world failed, not the tasks
_RETRIES: Final = 2
_PAUSE: Final = "pause.json"
_RAY_LOG: Final = "ray.log"


def run_batch(arguments: Arguments) -> int:
    """Run the tasks that have no result yet, and return the exit code.

    Raises:
        AgentCliError: The tasks, the options or the folder are invalid.
    """
    for option, name in _NOT_HERE:
        if getattr(arguments, name) not in (None, False):
            raise UsageError(f"{option} cannot be used with batch: each task is a new session")
    file = Path(arguments.operands[0])
    address = _address(arguments)
    # Checked here, or each task would end with the same error.
    run_options(arguments._replace(output_dir=None))
    startup = ready(arguments, may_ask=False)
    tasks = read_tasks(file)
    settings = startup.loaded.settings
    options = BatchOptions(
        options=tuple(worker_options(arguments)),
        jobs=arguments.jobs or 0,
        cap=in_microdollars(settings.max_cost_usd),
        attempts_max=1 + (_RETRIES if arguments.retries is None else arguments.retries),
        outage_wait_s=arguments.outage_wait_s or 0,
        shares_folders=settings.permissions.mode == "plan" or bool(arguments.batch_api),
    )
    if arguments.batch_api:
        check_api_tasks(arguments, tasks)
    if arguments.ray_copy:
        _check_copies(arguments, tasks)
    _tell_notices(startup)
    with BatchFolder(arguments.output_dir or file.with_suffix(".batch")) as folder:
        folder.check(tasks)
        if arguments.retry_failed:
            folder.take_back_failures()
        budget = Budget(in_microdollars(arguments.budget_usd or 0))
        tally = _Tally(len(tasks), budget)
        for task in tasks:
            if result := folder.results.get(task.id):
                tally.count(result)
        with _telling(tally) as tell:
            engine = _engine(arguments, address, startup, folder)
            batch = Batch(
                tasks=tasks,
                folder=folder,
                engine=engine,
                budget=budget,
                options=options,
                on_result=tell,
                on_notice=print_complaint,
            )
            run_loop(batch.run())
        return _end(batch, tally, folder)


def _address(arguments: Arguments) -> str:
    """Return the address of the Ray cluster; "" for this machine without Ray."""
    if arguments.engine == "ray":
        return ray_address(arguments.ray_address)
    for option, name in _OF_RAY:
        if getattr(arguments, name) not in (None, False):
            raise UsageError(f"{option} needs --engine ray")
    return ""


def _check_copies(arguments: Arguments, tasks: Sequence[Task]) -> None:
    """Check that nodes without our files can run the tasks, and that no guard is lost there.

    Raises:
        UsageError: They cannot.
    """
    for option, name in _OF_FILES:
        if getattr(arguments, name):
            raise UsageError(f"{option} cannot be used with --ray-copy: the nodes lack that file")
    if any(override.key == "mcp.config" for override in arguments.overrides):
        raise UsageError("--mcp-config cannot be used with --ray-copy: the nodes lack that file")
    store = TrustStore.of_user()
    for task in tasks:
        if task.checkout is None:
            raise UsageError(
                f"task {task.id!r} has no ref, and --ray-copy sends repositories alone: give it one"
            )
        folders = (task.checkout.repository, task.cwd)
        known = [each for each in map(store.standing, folders) if each.is_known or each.lost]
        if known and not arguments.trust:
            raise UsageError(
                f"you trust {task.checkout.repository}, and what its commits bring would be ignored"
                " on the nodes, its guards too: give --trust to let it act there"
            )


def _engine(
    arguments: Arguments, address: str, startup: StartupContext, folder: BatchFolder
) -> Engine:
    if arguments.batch_api:
        return api_engine(startup, folder.api_journal)
    shared = startup.loaded.settings.retry.shared_file or folder.path / _PAUSE
    variables = {PAUSE_VARIABLE: str(shared)}
    if not address:
        return LocalEngine({**os.environ, "PATH": users_path(), **variables})
    share = CPUS_PER_RUN if arguments.ray_cpus is None else arguments.ray_cpus
    return RayEngine(
        address,
        folder.path / _RAY_LOG,
        # A local cluster needs no more processors than the tasks take together.
        cpus=math.ceil(arguments.jobs * share) if arguments.jobs else None,
        share=share,
        variables=variables,
        limit_s=arguments.ray_wait_s or CONNECT_LIMIT_S,
        copies=bool(arguments.ray_copy),
    )


def worker_options(arguments: Arguments) -> Iterator[str]:
    """Yield the options of each run; paths are absolute, because it works in another folder."""
    for name, option in OPTIONS.items():
        if option.field not in _HANDED_ON:
            continue
        value = getattr(arguments, option.field)
        if value is True:
            yield name
        elif value:
            for each in value if is_sequence(value) else (value,):
                yield f"{name}={each.absolute() if isinstance(each, Path) else each}"
    # Prompts of many tasks are often made of others' text.
    yield "--no-attach"
    for override in arguments.overrides:
        yield from _as_option(override)


def _as_option(override: Override) -> Iterator[str]:
    if isinstance(override.value, bool):
        yield override.flag
    elif not isinstance(override.value, tuple):
        yield f"{override.flag}={override.value}"
    else:
        for each in override.value:
            here = override.key == "mcp.config"
            yield f"{override.flag}={expanded(each).absolute() if here else each}"


def _tell_notices(startup: StartupContext) -> None:
    for notice in startup.notices:
        print_complaint(notice)


@dataclass(slots=True)
class _Tally:
    """The figures in the progress bar and in the last line."""

    total: int
    budget: Budget
    ended: int = 0
    failed: int = 0

    def count(self, result: dict[str, Json]) -> None:
        self.ended += 1
        self.failed += result.get("status") != "done"

    def __str__(self) -> str:
        failed = f", {self.failed} not done" if self.failed else ""
        limit = f" of {dollars(self.budget.limit)}" if self.budget.limit else ""
        spent = f"{dollars(self.budget.spent, decimals=2)}{limit}"
        return f"{self.ended:,} of {counted(self.total, 'task')}{failed}, {spent}"


@contextmanager
def _telling(tally: _Tally) -> Generator[Callable[[dict[str, Json]], None]]:
    """Yield a function that shows a result: in a bar on a terminal, else as a line."""
    with labelled(str(tally), done=tally.ended, total=tally.total, stream=sys.stdout) as bar:

        def tell(result: dict[str, Json]) -> None:
            tally.count(result)
            line = _line(result)
            if bar is None:
                print(line, flush=True)
            else:
                bar(tally.ended, str(tally), line if result.get("status") != "done" else "")

        yield tell


def _line(result: dict[str, Json]) -> str:
    cost = result.get("cost_usd")
    spent = f", {dollars(in_microdollars(cost))}" if isinstance(cost, int | float) and cost else ""
    error = result.get("error")
    reason = result.get("stop_reason")
    why = f" ({reason})" if result["status"] == "limit" else ""
    reason = f": {error}" if error else ""
    return reveal(f"{result['id']}: {result['status']}{why}{spent}{reason}")


def _end(batch: Batch, tally: _Tally, folder: BatchFolder) -> int:
    """Print a summary, and how to continue if tasks are left; return the exit code."""
    pending, code, advice = len(batch.state.pending), _FAILED if tally.failed else 0, ""
    pending += len(batch.state.left)
    left, number = counted(pending, "task"), batch.state.stopped
    if pending and number:
        code = stop_signals.exit_code_of(number)
        advice = f"stopped with {left} left: run the same command to continue"
    elif outage := batch.state.outage:
        code = _TRY_AGAIN
        advice = (
            f"the last {ALIKE} runs all failed ({outage}: {batch.state.last_error}); {left} left:"
            " run the same command to continue, or give --wait SECONDS"
        )
    elif batch.state.left and not batch.state.pending:
        code = _TRY_AGAIN
        reason = batch.state.last_error
        advice = f"{left} could not be done for now ({reason}): run the same command to continue"
    elif pending:
        code = _LIMIT
        advice = (
            f"too little of --budget is left for {left}: run the same command with a higher one"
        )
    elif tally.failed:
        advice = (
            f"{counted(tally.failed, 'task')} not done, {RESULTS} says why: the same command with"
            " --retry-failed tries again"
        )
    stop_signals.end_with(code)  # every result is written, so a signal changes nothing any more
    print(f"{tally}; results: {shown((folder.path / RESULTS).resolve())}")
    if advice:
        print(f"agent-cli: {advice}", file=sys.stderr)
    return code
