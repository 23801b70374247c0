"""One edit of a text, as the tests of its parts make it."""

import pytest

from agent_cli_tools.matching import Edit, NoMatch, apply_edits


def edited(text: str, old: str, new: str, *, all: bool = False) -> str:
    return apply_edits(text, [Edit(old, new, all)]).text


def repairs(text: str, old: str, new: str) -> str:
    return ", ".join(apply_edits(text, [Edit(old, new)]).repairs[0])


def refusal(text: str, old: str, new: str, *, all: bool = False) -> str:
    with pytest.raises(NoMatch) as caught:
        apply_edits(text, [Edit(old, new, all)])
    return str(caught.value)


def check(text: str, old: str, new: str, expected: str | None) -> None:
    """Expect this text, or a refusal if it is None."""
    if expected is None:
        refusal(text, old, new)
    else:
        assert edited(text, old, new) == expected
