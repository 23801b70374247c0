"""From settings to the values the parts of the program are made with. Starts nothing."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from agent_cli.mcp_client import ServerConfig, ServerProblem, read_config_file, server_config
from agent_cli.providers.connection import Connection
from agent_cli.providers.retry_policy import RetryPolicy
from agent_cli.startup import Start


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
