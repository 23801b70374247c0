"""A program that may build the sandbox, found but not yet tried."""

from pathlib import Path

from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """The path of the program; `refusal` says why it must not be run, "" if it may."""

    program: Path
    refusal: str = ""
