"""`python -m agent_cli`, and the entry point of the installed command."""

import os
import signal
import sys

from agent_cli import NOT_ON_WINDOWS

_CONTINUE = ("-c", "--continue")
_COMMAND_WORDS_MAX = 2


def main() -> None:
    """Run the program and end the process with its exit code."""
    if sys.platform == "win32":
        sys.exit(NOT_ON_WINDOWS)
    # The first instruction: from here on a signal waits until it is decided what it does.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    _forget_relative_folders()
    # Imported here, because sys.path has to be safe before any of our modules is imported.
    from agent_cli.system import stop_signals
    from agent_cli.terminal.first_prompt import FIRST_PROMPT

    try:
        stop_signals.raise_stopped()
        if _opens_a_screen(sys.argv[1:]):
            FIRST_PROMPT.show()
        from agent_cli.system.loading import claim_process, without_collections

        claim_process()
        with without_collections():
            from agent_cli.cli.main import run

        exit_code = run(sys.argv[1:])
    except KeyboardInterrupt:  # during the imports
        exit_code = stop_signals.unstarted(sys.argv[1:], 130)
    except stop_signals.Stopped as stopped:
        exit_code = stop_signals.unstarted(sys.argv[1:], stopped.code)
    except BaseException:
        # A signal in an import comes out as anything: an ImportError, a panic of an extension.
        if (stopped_with := stop_signals.raised()) is None:
            raise
        exit_code = stop_signals.unstarted(sys.argv[1:], stopped_with)
    finally:
        FIRST_PROMPT.take_away()
    stop_signals.end_with(exit_code)
    stop_signals.end(exit_code)


def _opens_a_screen(words: list[str]) -> bool:
    """Return whether *words* need no parsing; for others the prompt is shown once they are parsed.

    A quoted word of more words than any command has is the first prompt.
    """
    others = [word for word in words if word not in _CONTINUE]
    is_prompt = [len(w.split()) > _COMMAND_WORDS_MAX and not w.startswith("-") for w in others]
    return not others or is_prompt == [True]


def _forget_relative_folders() -> None:
    """Drop from sys.path what PYTHONPATH does not name in full, as an empty part or `.`.

    It is another folder in each repository, whose mcp/ or rich.py must not shadow ours.
    """
    for folder in (os.environ.get("PYTHONPATH") or os.sep).split(os.pathsep):
        if not os.path.isabs(folder):  # noqa: PTH117 - pathlib is not imported yet
            named = {folder, os.path.abspath(folder or os.curdir)}  # noqa: PTH100
            sys.path[:] = [each for each in sys.path if each not in named]


def _forget_working_directory() -> None:
    """Drop the working directory from sys.path: its json.py or tools/ must not shadow others."""
    if not sys.flags.safe_path and sys.path:
        del sys.path[0]


if __name__ == "__main__":
    _forget_working_directory()
    main()
