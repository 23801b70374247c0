"""A program that may build the sandbox, found but not yet tried."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Candidate:
    """Where it lies; `refusal` says why it is not run, "" when it may be."""

    program: Path
    refusal: str = ""
