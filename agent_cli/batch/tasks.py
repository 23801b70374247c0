"""Read the file of tasks, one JSON object per line, and check every line."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.input_faults import fault_line
from agent_cli.contracts.options import EFFORT_ALIASES, ThinkingLevel
from agent_cli.prompt_files import read_prompt, read_text
from agent_cli.system.git import GitError
from agent_cli.system.paths import expanded
from agent_cli.system.records import dataclass
from agent_cli.system.worktrees import commit_of, repository_of

# Also the name of a folder, even on file systems that ignore case.
ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_FAULTS_MAX: Final = 10
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Whole = Annotated[int, Field(ge=1, le=10**15)]


def _level(written: object) -> object:
    return EFFORT_ALIASES.get(written, written) if isinstance(written, str) else written


class TaskLine(BaseModel):
    """The fields of a line; docs/batch.md explains them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: str
    prompt: str | None = None
    prompt_file: str | None = None
    cwd: str = "."
    ref: str | None = None
    model: Annotated[str, Field(min_length=1)] | None = None
    effort: Annotated[ThinkingLevel, BeforeValidator(_level)] | None = None
    max_rounds: _Whole | None = None
    max_tokens_total: _Whole | None = None
    max_cost: _Positive | None = None
    time_limit: _Positive | None = None


@dataclass(frozen=True, slots=True)
class Checkout:
    """A commit to work on, in its own worktree."""

    ref: str
    commit: str
    repository: Path


@dataclass(frozen=True, slots=True)
class Task:
    """A prompt and the folder to work in.

    Attributes:
        id: Unique, and valid as the name of a folder.
        prompt: Its text.
        cwd: The folder, absolute; inside the repository if there is a checkout.
        checkout: The commit to check out in a worktree; None works in the folder itself.
        options: Command-line options of this task.
        max_cost_usd: Its own cost limit, if any.
        fingerprint: A hash of all fields.
    """

    id: str
    prompt: str
    cwd: Path
    checkout: Checkout | None
    options: tuple[str, ...]
    max_cost_usd: float | None
    fingerprint: str


def read_tasks(path: Path) -> list[Task]:
    """Return the tasks in *path*; folders are relative to the folder it is in. Blocking.

    Raises:
        UsageError: The file is faulty; one sentence for each of the first ten faults.
    """
    text = read_text(path)
    reader = _Reader(path.absolute().parent)
    faults: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                reader.read(line)
            except UsageError as fault:
                faults.append(f"{path}:{number}: {fault}")
    if len(faults) > _FAULTS_MAX:
        faults[_FAULTS_MAX:] = [f"and {len(faults) - _FAULTS_MAX} lines more are wrong"]
    if faults:
        raise UsageError("\n".join(faults))
    if not reader.tasks:
        raise UsageError(f'{path} holds no task: write one a line, {{"id": "a", "prompt": "..."}}')
    return reader.tasks


class _Reader:
    """Reads lines, and resolves each ref of a repository once."""

    def __init__(self, base: Path) -> None:
        self.tasks: list[Task] = []
        self._base = base
        self._ids: set[str] = set()
        self._checkouts: dict[tuple[Path, str], Checkout] = {}

    def read(self, line: str) -> None:
        row = _parsed(line)
        if not ID.fullmatch(row.id):
            raise UsageError(
                f"id {row.id!r}: use up to 100 letters, digits and ._- (no leading . or -)"
            )
        if row.id.casefold() in self._ids:
            raise UsageError(f"id {row.id!r} is used twice: give each task its own id")
        self._ids.add(row.id.casefold())
        prompt = self._prompt(row)
        cwd = self._base / expanded(row.cwd)
        if not cwd.is_dir():
            raise UsageError(f"cwd {cwd} is not a folder")
        checkout = None if row.ref is None else self._checkout(cwd.resolve(), row.ref)
        fields = row.model_dump(exclude={"prompt", "prompt_file", "cwd"})
        written = json.dumps([fields, prompt, str(cwd.resolve())], sort_keys=True)
        self.tasks.append(
            Task(
                id=row.id,
                prompt=prompt,
                cwd=cwd.resolve(),
                checkout=checkout,
                options=tuple(_options(row)),
                max_cost_usd=row.max_cost,
                fingerprint=hashlib.sha256(written.encode()).hexdigest()[:16],
            )
        )

    def _prompt(self, row: TaskLine) -> str:
        if (row.prompt is None) == (row.prompt_file is None):
            raise UsageError("give the task either prompt or prompt_file")
        text = row.prompt
        if text is None:
            path = self._base / expanded(str(row.prompt_file))
            try:
                text = read_prompt(path)
            except UsageError as error:
                raise UsageError(f"prompt_file {error}") from error
        if not text.strip():
            raise UsageError("its prompt is empty")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UsageError("its prompt holds half of a character (a lone surrogate)") from error
        return text

    def _checkout(self, cwd: Path, ref: str) -> Checkout:
        if (cwd, ref) not in self._checkouts:
            try:
                repository = repository_of(cwd)
            except GitError as error:
                raise UsageError(f"ref needs a git repository; {cwd}: {error}") from error
            try:
                commit = commit_of(cwd, ref)
            except (GitError, ValueError) as error:
                raise UsageError(f"ref {ref!r} is not a commit in {repository}") from error
            self._checkouts[cwd, ref] = Checkout(ref, commit, repository)
        return self._checkouts[cwd, ref]


def _parsed(line: str) -> TaskLine:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:  # its line is always the first
        raise UsageError(f"not valid JSON: {error.msg}, at column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not valid JSON: {error}") from error
    if not isinstance(row, dict):
        raise UsageError('write an object, {"id": "a", "prompt": "..."}')
    try:
        return TaskLine.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            known = ", ".join(TaskLine.model_fields)
            raise UsageError(f"there is no field {where!r}; there are {known}") from error
        raise UsageError(fault_line(error)) from error


_OPTIONS: Final[dict[str, Callable[[TaskLine], object]]] = {
    "--model": lambda row: row.model,
    "--effort": lambda row: row.effort,
    "--max-rounds": lambda row: row.max_rounds,
    "--max-tokens-total": lambda row: row.max_tokens_total,
    "--time-limit": lambda row: row.time_limit,
}


def _options(row: TaskLine) -> Iterator[str]:
    for name, value in _OPTIONS.items():
        if (found := value(row)) is not None:
            yield f"{name}={found}"
