"""From settings to the values the parts of the program are made with. Starts nothing."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path

from agent_cli import paths
from agent_cli.mcp_client import ServerConfig, ServerProblem, read_config_file, server_config
from agent_cli.plugin_api import Plugin
from agent_cli.plugins.contributor import Plugins
from agent_cli.plugins.discovery import discover
from agent_cli.plugins.project_instructions import project_instructions, workspace_root
from agent_cli.plugins.reminders import reminders
from agent_cli.plugins.skills import skills
from agent_cli.providers.connection import Connection
from agent_cli.providers.retry_policy import RetryPolicy
from agent_cli.redaction import Redactor
from agent_cli.sandbox import Policy, Sandbox
from agent_cli.startup import Start
from agent_cli.trust import SKILL_FOLDERS
from agent_cli_tools.secret_files import is_secret


def connection(begun: Start) -> Connection:
    """Return how to reach the model's server."""
    settings, arguments = begun.loaded.settings, begun.arguments
    environment = begun.environment
    return Connection(
        base_url=environment.get("ANTHROPIC_BASE_URL"),
        api_key=environment.get("ANTHROPIC_API_KEY") or None,
        auth_token=environment.get("ANTHROPIC_AUTH_TOKEN") or None,
        read_timeout_s=settings.provider.read_timeout_s,
        compat=settings.provider.compat,
        record=arguments.record,
        replay=arguments.replay,
        redact=Redactor.of(environment).text,
    )


def retry_policy(begun: Start) -> RetryPolicy:
    """Return how failed model calls are repeated."""
    retry = begun.loaded.settings.retry
    return RetryPolicy(
        max=retry.max,
        base_s=retry.base_s,
        other_base_s=retry.other_base_s,
        factor=retry.factor,
        jitter=retry.jitter,
        max_server_delay_s=retry.max_server_delay_s,
    )


def system_prompt(begun: Start) -> str:
    """Return the stable part of the system prompt."""
    arguments = begun.arguments
    prompt = arguments.system_prompt
    if prompt is None:
        prompt = (files("agent_cli.prompts") / "system.md").read_text(encoding="utf-8")
    if arguments.append_system_prompt:
        prompt = f"{prompt.rstrip()}\n\n{arguments.append_system_prompt}"
    return prompt.strip()


def plugins(begun: Start, *, warn: Callable[[str], None], one_shot: bool) -> Plugins:
    """Return the plugins that are switched on.

    Args:
        warn: Gets a sentence about each one that cannot be used.
        one_shot: Nobody waits for a later prompt: no reminders.
    """
    wanted = begun.loaded.settings.plugins
    if not wanted.enabled:
        return Plugins((), warn=warn)
    return Plugins(
        tuple(_shipped_plugins(begun, warn, one_shot=one_shot)),
        find=partial(discover, begun.workspace, disabled=wanted.disabled),
        environment=begun.environment,
        disabled=wanted.disabled,
        warn=warn,
    )


def _shipped_plugins(
    begun: Start, warn: Callable[[str], None], *, one_shot: bool
) -> Iterator[Plugin]:
    user_dir, workspace = paths.config_dir(), begun.workspace
    root = workspace_root(workspace)
    yield project_instructions(root, workspace, user_dir=user_dir, warn=warn)
    project_folders = [workspace / folder for folder in SKILL_FOLDERS] if begun.trusted else []
    yield skills([user_dir / "skills", *project_folders], warn=warn)
    if not one_shot:
        yield reminders()


def sandbox(begun: Start) -> Sandbox:
    """Return what holds the commands of this session; which sandbox that is, it finds out."""
    settings = begun.loaded.settings.sandbox
    policy = Policy(
        (begun.workspace, *begun.arguments.add_dirs),
        home=Path.home(),
        own=(paths.config_dir(), paths.state_dir()),
        is_secret=is_secret,
        network=settings.network,
    )
    return Sandbox(policy, mode=settings.mode, state_dir=paths.state_dir())


def mcp_servers(begun: Start) -> Iterator[ServerConfig | ServerProblem]:
    """Yield the MCP servers of settings and files; what cannot be used with the reason.

    Raises:
        SettingsError: A file of servers cannot be read.
    """
    mcp = begun.loaded.settings.mcp
    if not mcp.enabled:
        return
    limits = {
        "startup_timeout_s": mcp.startup_timeout_s,
        "call_timeout_s": mcp.call_timeout_s,
    }
    for server in mcp.servers:
        entry = server._asdict()
        yield server_config(server.name, entry, begun.environment, source="settings", **limits)
    for path in _mcp_files(begun):
        found = read_config_file(path, begun.environment, **limits)
        yield from found.servers
        yield from found.problems


def _mcp_files(begun: Start) -> Iterator[Path]:
    """Yield the files that may be read: a repository's own only if it is trusted, or named."""
    named = begun.loaded.origins.get("mcp.config", "").startswith("flag")
    for given in begun.loaded.settings.mcp.config:
        path = begun.workspace / Path(given).expanduser()
        inside = path.resolve().is_relative_to(begun.workspace.resolve())
        if begun.trusted or named or not inside:
            yield path
