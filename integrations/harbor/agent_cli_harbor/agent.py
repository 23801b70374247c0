"""The agent as Harbor installs and runs it, inside the container of a task."""

import json
import shlex
from pathlib import Path
from typing import Annotated, Any, Final, override

from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template
from harbor.agents.model_connection import ModelConnectionSpec
from harbor.agents.options import Cli, InstalledAgentOptions
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from pydantic import Field

_UV_INSTALLER: Final = "https://astral.sh/uv/install.sh"
_PATH: Final = 'export PATH="$HOME/.local/bin:$PATH"'
_OUTPUT: Final = "agent-cli"
_TRAJECTORY: Final = "trajectory.json"
_PROMPT_VARIABLE: Final = "AGENT_CLI_HARBOR_INSTRUCTION"
# The container is the sandbox: tasks install packages and reach the network.
_SETTINGS: Final = {"AGENT_CLI_SANDBOX__MODE": "off"}


class AgentCliOptions(InstalledAgentOptions):
    """Options that are given with `--ak NAME=VALUE`."""

    package: str = Field(
        default="agent-cli-repl",
        description="Requirement that uv installs: a name, a URL or a path in the container.",
    )
    effort: Annotated[str | None, Cli("--effort")] = Field(
        default=None, description="off, minimal, low, medium, high or xhigh"
    )
    max_rounds: Annotated[int | None, Cli("--max-rounds")] = Field(
        default=None, description="Most rounds of a run; 0 is no limit."
    )
    max_cost: Annotated[float | None, Cli("--max-cost")] = Field(
        default=None, description="Most dollars of a run."
    )
    max_tokens_total: Annotated[int | None, Cli("--max-tokens-total")] = Field(
        default=None, description="Most tokens read and written in a run."
    )
    time_limit: Annotated[float | None, Cli("--time-limit")] = Field(
        default=None,
        description="Seconds after which a run ends in an orderly way; below Harbor's own limit.",
    )


class AgentCli(BaseInstalledAgent):
    """`agent-cli --prompt-file` in the container; its result and trajectory come back as logs."""

    capabilities = AgentCapabilities(atif=True, resume=True, skills=True, mcp_servers=True)
    MODEL_CONNECTION = ModelConnectionSpec(default_provider="anthropic", passthrough=True)
    options_model = AgentCliOptions
    options: AgentCliOptions

    @staticmethod
    @override
    def name() -> str:
        return "agent-cli"

    @override
    def get_version_command(self) -> str:
        return f"{_PATH}; agent-cli --version"

    @override
    def parse_version(self, stdout: str) -> str:
        return stdout.rpartition(" ")[2].strip()

    @override
    async def install(self, environment: BaseEnvironment) -> None:
        """Install uv, and agent-cli with it; uv brings a Python where there is none."""
        await self.ensure_system_dependencies(environment, ("ca_certificates", "curl", "git"))
        wanted = self.options.package + (f"=={self._version}" if self._version else "")
        await self.exec_as_agent(
            environment,
            f"{_PATH}; set -e;"
            f" command -v uv > /dev/null || curl -LsSf {_UV_INSTALLER} | sh;"
            f" uv tool install --force {shlex.quote(wanted)}; agent-cli --version",
        )

    @override
    @with_prompt_template
    async def run(
        self, instruction: str, environment: BaseEnvironment, context: AgentContext
    ) -> None:
        """Run one prompt. A limit that is reached is no failure: what was done is verified."""
        await self.exec_as_agent(
            environment,
            self._script(),
            env={**self.model_connection.env, **_SETTINGS, _PROMPT_VARIABLE: instruction},
        )

    @override
    def populate_context_post_run(self, context: AgentContext) -> None:
        """Take tokens and cost from the result; a run that was killed has none."""
        result = _read(self.logs_dir / _OUTPUT / "result.json")
        usage = result.get("usage")
        if not isinstance(usage, dict):
            return
        read = usage["cache_read_tokens"]
        written = usage["cache_write_5m_tokens"] + usage["cache_write_1h_tokens"]
        context.n_input_tokens = usage["input_tokens"] + read + written
        context.n_cache_tokens = read
        context.n_output_tokens = usage["output_tokens"]
        context.cost_usd = result["cost_usd"]
        context.metadata = {
            "stop_reason": result["stop_reason"],
            "rounds": result["rounds"],
            "session_id": result["session_id"],
            "exit_code": result["exit_code"],
        }

    def _script(self) -> str:
        """Return the shell script of a run; the session is exported however the run ends."""
        logs = str(self.environment_logs_dir)
        output = f"{logs}/{_OUTPUT}"
        prompt, log = f"{logs}/prompt.md", f"{logs}/agent-cli.txt"
        result, trajectory = f"{output}/result.json", f"{logs}/{_TRAJECTORY}"
        find_id = 's/^  "session_id": "\\(.*\\)",\\{0,1\\}$/\\1/p'
        # Exit codes 3 and 4: a missing approval, a limit.
        return "; ".join(
            [
                _PATH,
                f"mkdir -p {shlex.quote(output)}",
                f"printf '%s' \"${_PROMPT_VARIABLE}\" > {shlex.quote(prompt)}",
                f"unset {_PROMPT_VARIABLE}",
                *self._preparations(logs),
                f"{self._command(prompt, output, logs)} 2>&1 < /dev/null | tee {shlex.quote(log)}",
                "code=${PIPESTATUS[0]}",
                f"id=$(sed -n {shlex.quote(find_id)} {shlex.quote(result)})",
                f'[ -z "$id" ] || agent-cli sessions export "$id" atif > {shlex.quote(trajectory)}',
                'case "$code" in 0|3|4) exit 0 ;; *) exit "$code" ;; esac',
            ]
        )

    def _command(self, prompt: str, output: str, logs: str) -> str:
        words = ["agent-cli", "--prompt-file", prompt, "--permission-mode", "yolo"]
        words += ["--output-dir", output]
        if self._parsed_model_name:
            words += ["--model", self._parsed_model_name]
        if self.mcp_servers:
            words += ["--mcp-config", f"{logs}/mcp.json"]
        if self._resume:
            words.append("--continue")
        return f"{shlex.join(words)} {self.build_cli_flags()}".rstrip()

    def _preparations(self, logs: str) -> list[str]:
        """Return the commands that put skills and MCP servers where agent-cli finds them."""
        commands: list[str] = []
        if self.skills_dir:
            source = shlex.quote(self.skills_dir)
            commands.append(f"mkdir -p ~/.agents/skills && cp -R {source}/. ~/.agents/skills/")
        if self.mcp_servers:
            servers = {server.name: _server(server) for server in self.mcp_servers}
            text = json.dumps({"mcpServers": servers})
            commands.append(f"printf '%s' {shlex.quote(text)} > {shlex.quote(f'{logs}/mcp.json')}")
        return commands


def _server(server: Any) -> dict[str, Any]:
    if server.transport == "stdio":
        return {"command": server.command, "args": server.args}
    kind = "sse" if server.transport == "sse" else "http"
    return {"type": kind, "url": server.url}


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
