"""Run one hook: a program that reads JSON and may answer in JSON, a URL to which it is posted, a
Python function, or a question to a model or a server.

Every failure becomes a `HookOutcome` with a fault. Only a cancellation raises, and then the program
and all its processes are killed.
"""

import asyncio
import os
import re
import secrets
import shlex
import shutil
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from agent_cli.contracts.timeline import Json
from agent_cli.contracts.written_hooks import PROJECT_DIR, with_project_dir
from agent_cli.hooks.answers import Exports, HookOutcome
from agent_cli.hooks.definition import Hook
from agent_cli.hooks.events import printed_by
from agent_cli.hooks.judging import HookServices, judged
from agent_cli.system.addresses import are_inside, are_of_this_machine, resolve
from agent_cli.system.asked_program import (
    OUTPUT_BYTES_MAX,
    ProgramAnswer,
    TooMuchOutput,
    ask_program,
    child_environment,
    sent_json,
)
from agent_cli.system.event_loop import in_background
from agent_cli.system.loading import load
from agent_cli.system.logger import logger
from agent_cli.system.paths import real_path
from agent_cli.system.records import dataclass, field
from agent_cli.system.shapes import is_group

if TYPE_CHECKING:
    from httpx2 import Request

_REASON_CHARS_MAX = 2_000
_CONNECT_S = 10.0
_EFFORT = "CLAUDE_EFFORT"
_SAFE_PATH, _IMPORT_PATH = "PYTHONSAFEPATH", "PYTHONPATH"
_SCRIPTS = (".py", ".sh")
_MAY_EXPORT = frozenset({"SessionStart", "FileChanged"})
ANSWERS = "answers"
"""The field of a payload that holds signed answers."""
_CANNOT_START = frozenset({126, 127})
_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class PreparedHook:
    """The command line and variables with which a hook starts, or the `fault` why it must not.

    `is_own` is False if it may run a file of the workspace. `ask` starts it in another way.
    """

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    fault: str = ""
    is_confined: bool = False
    is_own: bool = True
    ask: "Ask | None" = None


Ask: TypeAlias = Callable[[bytes, Mapping[str, str], asyncio.Timeout], Awaitable[ProgramAnswer]]
"""Asks the hook, whose changes to files are recorded, with its input and environment."""
PrepareHook: TypeAlias = Callable[[Hook, Sequence[str]], AbstractAsyncContextManager[PreparedHook]]


@asynccontextmanager
async def _outside(_hook: Hook, command: Sequence[str]) -> AsyncGenerator[PreparedHook]:
    yield PreparedHook(command)


@dataclass(frozen=True, slots=True)
class HookEnvironment:
    """The folder and environment for hooks.

    Attributes:
        variables: Returns additional current variables.
        prepare: Puts the command line of a hook into the sandbox, where it belongs there.
        services: Answer hooks of the kinds prompt, agent and mcp_tool; None outside a session.
    """

    workspace: Path
    environment: Mapping[str, str]
    variables: Callable[[], Mapping[str, str]] = dict
    prepare: PrepareHook = _outside
    services: HookServices | None = None


async def run_hook(hook: Hook, payload: Mapping[str, Json], around: HookEnvironment) -> HookOutcome:
    """Run *hook* with *payload* and return its outcome."""
    started_s = time.monotonic()
    if hook.fault:
        return HookOutcome(fault=hook.fault, is_broken=True)
    try:
        async with asyncio.timeout(hook.limit_s) as limit:
            ran = await _run(hook, payload, around, limit)
    except TimeoutError:
        fault = f"it took longer than {hook.limit_s:g} s; make it faster, or raise its timeout"
        ran = HookOutcome(fault=fault)
    except OSError as error:
        fault = f"it cannot be started ({error.strerror or error}); check its command"
        ran = HookOutcome(fault=fault, is_broken=True)
    except Exception as error:
        # A command that cannot be encoded, a port that no machine has: it would end the session.
        _log.info("hook failed", hook=hook.shown, exc_info=True)
        cause: BaseException = error
        while is_group(cause):
            cause = cause.exceptions[0]
        fault = f"it cannot be run ({cause}); correct its definition"
        ran = HookOutcome(fault=fault, is_broken=True)
    return replace(ran, elapsed_s=time.monotonic() - started_s)


async def _run(
    hook: Hook, payload: Mapping[str, Json], around: HookEnvironment, limit: asyncio.Timeout
) -> HookOutcome:
    if hook.function:
        try:
            return HookOutcome(stdout=await printed_by(hook.function, payload, around.workspace))
        except Exception as error:
            _log.info("hook failed", hook=hook.shown, exc_info=True)
            fault = f"it raised {type(error).__name__} ({error}); correct it"
            return HookOutcome(fault=fault, is_broken=True)
    if hook.prompt or hook.server:
        return await judged(hook, payload, around.services)
    if hook.url:
        return await _ask(hook, sent_json(payload), around)
    return await _start(hook, payload, around, limit)


def problem_of(hook: Hook, around: HookEnvironment) -> str:
    """Return why *hook* cannot run, or "", as far as that is known without running it."""
    if hook.fault or not hook.command:
        return hook.fault
    program = _program(hook, around)
    path = around.environment.get("PATH", os.defpath)
    if "/" in program:
        usable = os.access(program, os.X_OK) and Path(program).is_file()
    else:  # only the shell knows how it resolves a bare word
        usable = hook.args is None or shutil.which(program, path=path) is not None
    return "" if usable else _why_not_started(hook, 127, "", around)


async def _start(
    hook: Hook, payload: Mapping[str, Json], around: HookEnvironment, limit: asyncio.Timeout
) -> HookOutcome:
    environment = _environment(hook, payload, around)
    command = _command(hook, around)
    reader = ExportsReader() if hook.event in _MAY_EXPORT else None
    if reader:
        command = reader.around(command)
    exports: Exports | None = None
    try:
        async with around.prepare(hook, command) as prepared:
            if prepared.fault:
                return HookOutcome(fault=prepared.fault, is_broken=True)
            if not prepared.is_own:  # what the repository brings must not answer for the user
                payload = {name: value for name, value in payload.items() if name != ANSWERS}
            before = {**environment, **prepared.environment}
            if prepared.ask:
                ran = await prepared.ask(sent_json(payload), before, limit)
            else:
                ran = await ask_program(
                    *(prepared.command, sent_json(payload)),
                    environment=before,
                    workspace=around.workspace,
                )
            if reader:
                stdout, exports = reader.read(ran.stdout, before, is_confined=prepared.is_confined)
                ran = replace(ran, output=stdout.encode())
    except TooMuchOutput:
        return HookOutcome(fault="it printed more than 1 MB; make it print less")
    if ran.code in (0, 2):
        return HookOutcome(ran.code, ran.stdout, ran.stderr, exports=exports)
    reason = ran.stderr.strip()[-_REASON_CHARS_MAX:]
    if is_broken := ran.code in _CANNOT_START:
        fault = _why_not_started(hook, ran.code, reason, around)
    else:
        fault = f"it ended with exit code {ran.code}{reason and f': {reason}'}; correct it"
    return HookOutcome(ran.code, ran.stdout, ran.stderr, fault=fault, is_broken=is_broken)


def _environment(
    hook: Hook, payload: Mapping[str, Json], around: HookEnvironment
) -> dict[str, str]:
    """Return the variables of a hook; its own win over the session's, these over allowed ones."""
    allowed = {n: v for n in hook.allowed_variables if (v := around.environment.get(n)) is not None}
    effort = payload.get("effort")
    own = {_EFFORT: str(effort["level"])} if isinstance(effort, dict) else {}
    own |= {**dict(hook.variables), PROJECT_DIR: str(around.workspace)}
    if around.environment.get(_SAFE_PATH) and (folders := _script_folders(hook, around)):
        own[_IMPORT_PATH] = os.pathsep.join(folders)
    return child_environment(around.environment, {**allowed, **around.variables(), **own})


def _script_folders(hook: Hook, around: HookEnvironment) -> list[str]:
    """Return the folders of the scripts outside the workspace that *hook* names.

    Where Python must not import from the workspace, it looks beside no script either.
    """
    try:
        words = [*shlex.split(hook.command), *(hook.args or ())]
    except ValueError:
        return []
    home = around.environment.get("HOME", "")
    named = (Path(os.path.expanduser(word.replace("$HOME", home))) for word in words)  # noqa: PTH111
    found = (path for path in named if path.suffix in _SCRIPTS and path.is_absolute())
    inside = real_path(around.workspace)
    folders = (real_path(path).parent for path in found if path.is_file())
    return [str(folder) for folder in folders if not folder.is_relative_to(inside)]


def _command(hook: Hook, around: HookEnvironment) -> list[str]:
    if hook.args is None:
        path = around.environment.get("PATH", os.defpath)
        return [shutil.which("bash", path=path) or "/bin/sh", "-c", hook.command]
    filled = (_with_values(word, hook) for word in (hook.command, *hook.args))
    program, *words = (with_project_dir(word, str(around.workspace)) for word in filled)
    return [os.path.expanduser(program), *words]  # noqa: PTH111 - a name may begin with ~


def _with_values(word: str, hook: Hook) -> str:
    for name, value in hook.variables:
        word = word.replace(f"${{{name}}}", value)
    return word


def _why_not_started(hook: Hook, code: int, reason: str, around: HookEnvironment) -> str:
    program = _program(hook, around)
    if program and Path(program).is_file() and not os.access(program, os.X_OK):
        return f"{program} is not executable; run chmod +x {shlex.quote(program)}"
    if program and "/" in program and not Path(program).exists():
        return f"there is no {program}; correct the path or restore the file"
    cause = "was not found" if code == 127 else "cannot be executed"
    return f"its program {cause} ({reason or hook.shown}); install it, or correct the command"


def _program(hook: Hook, around: HookEnvironment) -> str:
    """Return the path of the program that *hook* starts, as far as its command shows it."""
    try:
        words = shlex.split(hook.command) if hook.args is None else [hook.command]
    except ValueError:
        return ""
    first = next((word for word in words if "=" not in word), "")
    expanded = os.path.expanduser(with_project_dir(first, str(around.workspace)))  # noqa: PTH111 - as above
    return str(around.workspace / expanded) if "/" in expanded else expanded


async def _ask(hook: Hook, sent: bytes, around: HookEnvironment) -> HookOutcome:
    """Post *sent* to the hook's URL; follow no redirects, since their targets are not approved."""
    await in_background(lambda: load("httpx2"))  # slow, and few hooks are URLs
    import httpx2

    # They need httpx2.
    from agent_cli.system.http_requests import CheckedTransport, HttpSettingsError, why_unanswered

    url = _with_values(hook.url, hook)
    headers = {"content-type": "application/json"}
    headers |= {name: _filled(value, hook, around) for name, value in hook.headers}
    limits = httpx2.Timeout(hook.limit_s, connect=min(hook.limit_s, _CONNECT_S))
    try:
        httpx2.URL(url).raw_host.decode("ascii").encode("idna")  # UnicodeError is a ValueError
    except (ValueError, httpx2.InvalidURL) as error:
        fault = f"{hook.url} is not a valid URL ({error}); correct it"
        return HookOutcome(fault=fault, is_broken=True)
    transport = CheckedTransport(_addresses if hook.is_foreign else _any_address)
    try:
        async with (
            httpx2.AsyncClient(
                follow_redirects=False, timeout=limits, transport=transport
            ) as client,
            client.stream("POST", url, content=sent, headers=headers) as response,
        ):
            found = bytearray()
            async for chunk in response.aiter_bytes():
                found += chunk
                if len(found) > OUTPUT_BYTES_MAX:
                    return HookOutcome(fault="it answered with more than 1 MB; make it answer less")
    except (_InsideError, HttpSettingsError) as error:
        return HookOutcome(fault=str(error), is_broken=True)
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        why = why_unanswered(error, hook.url)
        fault = f"{why.sentence}; {why.advice or 'check that it runs'}"
        return HookOutcome(fault=fault, is_broken=True)
    if not response.is_success:
        fault = f"{hook.url} answered with status {response.status_code}; it must be 200 to 299"
        return HookOutcome(code=response.status_code, fault=fault)
    return HookOutcome(stdout=found.decode(errors="replace"))


class _InsideError(Exception):
    """The hook of a workspace names a service in the user's internal network."""


async def _any_address(_request: "Request") -> None:
    """Let the user's own hooks reach any service."""


async def _addresses(request: "Request") -> Sequence[str]:
    """Return the addresses to which the hook of a workspace may be posted.

    The author of its file must not direct the session's data to a service in the user's internal
    network. Servers on this machine are allowed, as the usual target of such hooks.
    """
    from agent_cli.system.http_requests import sent_host  # loaded by the caller

    host = sent_host(request.url)
    found = await resolve(host)
    if are_of_this_machine(found) or not are_inside(found):
        return found
    raise _InsideError(
        f"{host} is inside your own network; define this hook in your own settings to allow it"
    )


def _filled(value: str, hook: Hook, around: HookEnvironment) -> str:
    """Return a header with the allowed variables filled in."""

    def variable(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if (value := dict(hook.variables).get(name)) is not None:
            return value
        return around.environment.get(name, "") if name in hook.allowed_variables else ""

    return re.sub(r"\$\{(\w+)\}|\$(\w+)", variable, value).strip()


ENV_FILE: Final = "CLAUDE_ENV_FILE"
# No limit of a kernel for the arguments of a program is lower.
CHARS_MAX: Final = 65_536

_SCRIPT: Final = """
mark=$1
shift
CLAUDE_ENV_FILE=$(mktemp) || exec "$@"
export CLAUDE_ENV_FILE
"$@"
code=$?
if [ -s "$CLAUDE_ENV_FILE" ]; then
    (
        . "$CLAUDE_ENV_FILE" >/dev/null 2>&1 </dev/null
        printf %s "$mark"
        command -p env -0
    )
fi
rm -f "$CLAUDE_ENV_FILE"
exit $code
"""
# Set by every shell, or of no use to another one.
_NOT_EXPORTED: Final = frozenset(
    {ENV_FILE, "_", "SHLVL", "PWD", "OLDPWD", "UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS"}
)


@dataclass(frozen=True, slots=True)
class ExportsReader:
    """Wraps the command line of a hook, and reads from its output what it exports."""

    mark: str = field(default_factory=lambda: secrets.token_hex(16))

    def around(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs *command* and reports its exported variables."""
        return ["/bin/sh", "-c", _SCRIPT, "sh", self.mark, *command]

    def read(
        self, stdout: str, before: Mapping[str, str], *, is_confined: bool
    ) -> tuple[str, Exports]:
        """Return the output of the hook itself, and its variables that differ from *before*."""
        own, _, reported = stdout.partition(self.mark)
        found = dict(each.split("=", 1) for each in reported.split("\0") if "=" in each)
        changed = {
            name: value
            for name, value in found.items()
            if name.isidentifier() and name.isascii() and name not in _NOT_EXPORTED
            if before.get(name) != value
        }
        if sum(map(len, changed.values())) > CHARS_MAX:
            fault = f"it sets variables of more than {CHARS_MAX} characters; commands get none"
            return own, Exports({}, is_confined, fault)
        return own, Exports(changed, is_confined)
