"""Detect lines of the file that were omitted in a quotation."""

from collections.abc import Sequence

from agent_cli_tools.matching.alignment import align


def can_lack(lines: Sequence[str], old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether *old* may be meant to include the following *lines*, to be replaced too.

    Not if *new* ends like *old*: then *lines* would be removed unseen.
    """
    if not lines:
        return False
    was, becomes = ([line.strip() for line in text if line.strip()] for text in (old, new))
    if not becomes:
        return True
    return align(was, becomes)[-1].kind != "equal"
