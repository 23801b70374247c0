"""Imports of `-p` before its first request is sent; all others happen while it waits."""

import sys
from importlib.util import find_spec
from pathlib import Path

from tests.headless.watched import run_watched

UNTIL_SENT = """
import os, sys
from agent_cli.app.preparations import Preparations
from agent_cli.__main__ import main

def tell(_preparations):
    print(*sys.modules, flush=True)
    os._exit(0)

Preparations.request_sent = tell
sys.argv = ["agent-cli", "-p", "go"]
main()
"""
NEEDED = {
    *("httpx2", "httpcore2", "h11", "idna", "anyio", "truststore"),  # HTTP
    *("tenacity", "sniffio", "typing_extensions"),
}
LATER = {
    "agent_cli.app.agents.workspaces",
    "agent_cli.app.agents.worker",
    "agent_cli.app.checks.report",
    "agent_cli.app.overview",
    "agent_cli.attachments.images",
    "agent_cli.cli.completion",
    "agent_cli.contracts.listings",
    "agent_cli.core.branching",
    "agent_cli.headless.output_dir",
    "agent_cli.headless.structured",
    "agent_cli.mcp_client.config",
    "agent_cli.mcp_client.connection",
    "agent_cli.mcp_client.entries",
    "agent_cli.mcp_client.forms",
    "agent_cli.plugins.reminders",
    "agent_cli.policies.shell.judgement",
    "agent_cli.policies.shell.plain",
    "agent_cli.providers.recording",
    "agent_cli.providers.anthropic.reply_builder",
    "agent_cli.providers.anthropic.sdk_client",
    "agent_cli.providers.events",
    "agent_cli.sandbox.backends",
    "agent_cli.sandbox.denials",
    "agent_cli.sandbox.confinement",
    "agent_cli.sandbox.policy",
    "agent_cli.sandbox.probe",
    "agent_cli.sandbox.tripwire",
    "agent_cli.session_store.export",
    "agent_cli.session_store.listing",
    "agent_cli.session_store.transcripts",
    "agent_cli.session_store.upkeep",
    "agent_cli.system.launcher",
    "agent_cli.system.worktrees",
    "agent_cli_tools.atomic_write",
    "agent_cli_tools.command_run",
    "agent_cli_tools.diffs",
    "agent_cli_tools.excerpts",
    "agent_cli_tools.search_runs",
    "agent_cli_tools.job",
    "agent_cli_tools.job_reading",
    "agent_cli_tools.matching",
    "agent_cli_tools.searches",
    "agent_cli_tools.snapshots.journal",
    *("ctypes", "difflib", "html"),
}


def test_one_shot_run_imports_only_what_its_first_request_needs(tmp_path: Path) -> None:
    """C17: scripts call `-p` in a loop; each further import would cost up to 50 ms."""
    run = run_watched(UNTIL_SENT, tmp_path)

    loaded = set(run.stdout.split())
    installed = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    foreign = {name for name in installed if _is_a_package(name)}
    assert all(map(find_spec, LATER))
    assert foreign <= NEEDED
    assert loaded & LATER == set()
    assert [name for name in loaded if name.startswith("agent_cli.hooks")] == []  # there are none


def _is_a_package(name: str) -> bool:
    """Whether pip installed *name*; a virtual environment has its own start-up files."""
    return not name.startswith(("_", "agent_cli", "sitecustomize", "usercustomize"))
