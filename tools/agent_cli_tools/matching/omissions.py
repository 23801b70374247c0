"""Lines of the file that were left out where a text was quoted."""

from collections.abc import Sequence

from agent_cli_tools.matching.alignment import align


def can_lack(lines: Sequence[str], old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether *old* can have been meant to go on with *lines*, which *new* replaces with it.

    It cannot if *new* ends as *old* does: then *lines* would go unseen.
    """
    if not lines:
        return False
    was, becomes = ([line.strip() for line in text if line.strip()] for text in (old, new))
    if not becomes:
        return True
    return align(was, becomes)[-1].kind != "equal"
