"""A batch as its user sees it: the file of tasks, and the files of its results and attempts."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_cli.batch.folder import state_folder


def write_tasks(*tasks: dict[str, Any]) -> None:
    """Write the file of *tasks*."""
    Path("tasks.jsonl").write_text("\n".join(map(json.dumps, tasks)))


def lines(name: str) -> list[dict[str, Any]]:
    """Return the whole lines of a file beside the tasks or in their state; none without a file."""
    folder = Path("tasks.batch")
    place = (state_folder(folder) or folder) if name == "attempts.jsonl" else folder
    with suppress(FileNotFoundError):
        whole, _, _ = (place / name).read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]
    return []


def results() -> dict[str, dict[str, Any]]:
    """Return the results by id, each listed once."""
    written = lines("RESULTS.jsonl")
    found = {each["id"]: each for each in written}
    assert len(found) == len(written)
    return found
