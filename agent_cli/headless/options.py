"""Options of one run without a REPL."""

from dataclasses import dataclass, field

from agent_cli.headless.limits import RunLimits
from agent_cli.headless.output_dir import OutputDir
from agent_cli.headless.structured import OutputSchema


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of one run: limits, the form of its answer, and the output directory."""

    limits: RunLimits = field(default_factory=RunLimits)
    schema: OutputSchema | None = None
    output_dir: OutputDir | None = None
