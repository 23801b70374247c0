"""Prompts in files, named on the command line or in a list of tasks."""

from pathlib import Path

from agent_cli.contracts.errors import UsageError


def read_prompt(path: Path) -> str:
    """Return the prompt in *path*.

    Raises:
        UsageError: It cannot be read, is not text, or is empty; the message begins with the path.
    """
    text = read_text(path)
    if not text.strip():
        raise UsageError(f"{path} is empty: write the prompt into it")
    return text


def read_text(path: Path) -> str:
    """Return the text of *path*.

    Raises:
        UsageError: It cannot be read, or is not text; the message begins with the path.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text") from error
