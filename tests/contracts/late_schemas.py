"""Write the schemas of the models that are built late: `python -m tests.contracts.late_schemas`."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import agent_cli
import agent_cli_tools
from agent_cli.contracts.late_models import SCHEMAS, late_models, name_of, schema_of
from agent_cli.contracts.timeline import Json

_MARKS = ("contracts.late_models import", "(Parameters):")


def schemas() -> dict[str, dict[str, Json]]:
    """Return the schema of each of our models, made by pydantic."""
    for package in (agent_cli, agent_cli_tools):
        folder = Path(next(iter(package.__path__)))
        for path in folder.rglob("*.py"):
            text = path.read_text()
            if any(mark in text for mark in _MARKS):
                import_module(".".join(path.relative_to(folder.parent).with_suffix("").parts))
    ours = [each for each in late_models() if each.__module__.startswith("agent_cli")]
    # Any: the cache's parameter is hashable for the type checker only if its class is known.
    make: Any = schema_of
    return {name_of(each): make(each) for each in sorted(ours, key=name_of)}


if __name__ == "__main__":
    SCHEMAS.write_text(json.dumps(schemas(), indent=1) + "\n")
