"""Files shipped with the program that other programs read."""

import json
import tomllib
from pathlib import Path

from agent_cli.app.option_table import COMMANDS
from agent_cli.version import __version__

ROOT = Path(__file__).parents[1]


def test_acp_registry_entry_starts_this_version() -> None:
    """Editors install the version it names, and start it with its arguments."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    path = ROOT / "integrations" / "acp-registry" / "agent-cli" / "agent.json"

    entry = json.loads(path.read_text())

    assert (entry["id"], entry["version"]) == (path.parent.name, __version__)
    assert entry["distribution"]["uvx"]["package"] == f"{project['name']}@{__version__}"
    assert entry["distribution"]["uvx"]["args"][0] in COMMANDS
    assert entry["description"] == project["description"]
