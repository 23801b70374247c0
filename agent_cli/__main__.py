"""`python -m agent_cli`, and where the installed command begins."""

import sys


def main() -> int:
    """Run the program and return its exit code."""
    try:
        from agent_cli.cli.main import run  # noqa: PLC0415 - sys.path has to be safe before this

        return run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules were imported
        return 130


def _forget_working_directory() -> None:
    """Keep Python from importing what lies about in somebody's repository (json.py, tools/)."""
    if not sys.flags.safe_path and sys.path:
        del sys.path[0]


if __name__ == "__main__":
    _forget_working_directory()
    sys.exit(main())
