"""The parser of `agent-cli mcp ...`."""

import argparse
from typing import NoReturn

from agent_cli.contracts.errors import UsageError


class CommandParser(argparse.ArgumentParser):
    """Reports errors in the style of the program."""

    def error(self, message: str) -> NoReturn:
        """Raise the error as one sentence."""
        raise UsageError(f"{self.prog}: {message}; see {self.prog} --help")
