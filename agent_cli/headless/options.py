"""Options of one run without a REPL."""

from typing import TYPE_CHECKING

from agent_cli.headless.limits import RunLimits
from agent_cli.system.records import dataclass, field

if TYPE_CHECKING:
    from agent_cli.headless.output_dir import OutputDir
    from agent_cli.headless.structured import AnswerCheck, OutputSchema


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of one run: limits, the form of its answer, the output directory, and a check.

    The run goes on until `require_check`, a command, exits with 0; "" is none.
    """

    limits: RunLimits = field(default_factory=RunLimits)
    schema: "OutputSchema | None" = None
    output_dir: "OutputDir | None" = None
    require_check: str = ""

    def answer_check(self) -> "AnswerCheck | None":
        """Return the check of the answer; None without a schema."""
        if self.schema is None:
            return None
        from agent_cli.headless.structured import AnswerCheck  # noqa: PLC0415 - rare

        return AnswerCheck(self.schema)
