"""Times in the files of other agents."""

from collections.abc import Mapping
from datetime import datetime

from agent_cli.contracts.timeline import Json


def at_ms(line: Mapping[str, Json]) -> int:
    """Return the time of a line in Unix ms; 0 if it has none."""
    try:
        return int(datetime.fromisoformat(str(line.get("timestamp"))).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0
