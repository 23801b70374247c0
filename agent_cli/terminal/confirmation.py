"""Ask a yes-or-no question before the REPL runs."""

import sys


def confirmed(question: str, *, by_default: bool = False) -> bool:
    """Ask on stderr, and return the answer from stdin; Enter alone means *by_default*.

    Raises:
        KeyboardInterrupt: Ctrl-C; the question's line is ended first.
    """
    choices = "[Y/n]" if by_default else "[y/N]"
    print(f"{question} {choices} ", end="", file=sys.stderr, flush=True)
    try:
        line = sys.stdin.readline()
    except KeyboardInterrupt:
        print(file=sys.stderr)
        raise
    answer = line.strip().lower()
    # The end of the input is no Enter.
    return answer in ("y", "yes") or (by_default and line != "" and not answer)
