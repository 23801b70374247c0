"""The inputs of `-p` from the command line: prompt, limits, form of the answer."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.app.arguments import Arguments
from agent_cli.contracts.errors import AgentCliError, UsageError
from agent_cli.headless.inputs import RunOptions
from agent_cli.headless.limits import RunLimits
from agent_cli.headless.report import RunReport
from agent_cli.prompt_files import read_prompt

if TYPE_CHECKING:
    from agent_cli.headless.output_dir import OutputDir
    from agent_cli.system.redaction import Redactor


def run_options(arguments: Arguments) -> RunOptions:
    """Return the options of the run.

    Raises:
        UsageError: A given file or directory cannot be used.
    """
    directory = schema = None
    if arguments.output_dir:
        from agent_cli.headless.output_dir import OutputDir  # rare

        directory = OutputDir.prepare(arguments.output_dir, _redactor().text)
    with failure_kept(directory):
        if arguments.json_schema:
            from agent_cli.headless.structured import OutputSchema  # rare

            schema = OutputSchema.read(arguments.json_schema)
    limits = RunLimits(arguments.time_limit_s, arguments.tokens_max)
    check = arguments.require_check or ""
    return RunOptions(limits, schema, directory, check, parks=bool(arguments.park))


def _redactor() -> "Redactor":
    """Return a redactor of the secrets in the process's environment and the user's `.env`."""
    from agent_cli.settings.environment import load_environment  # rare
    from agent_cli.system.redaction import Redactor  # rare

    return Redactor.of(load_environment(os.environ, workspace=Path(), trusted=False))


def prompt_of(arguments: Arguments) -> str:
    """Return the text of `-p` or of `--prompt-file`; "-" stands for stdin.

    Raises:
        UsageError: The file cannot be read, or is empty.
    """
    path = arguments.prompt_file
    if path is None:
        return arguments.print_prompt or ""
    try:
        text = read_prompt(path)
    except UsageError as error:
        raise UsageError(f"--prompt-file: {error}") from error
    return f"{text}\n"  # a file whose text is "-" does not stand for stdin


@contextmanager
def failure_kept(directory: "OutputDir | None") -> Generator[None]:
    """Write the result of a run that could not begin to *directory* as well."""
    try:
        yield
    except AgentCliError as error:
        if directory:
            directory.write_result(RunReport.of_failure(error).to_json())
        raise
