"""Whether a script may be tried read-only before anybody is asked about it.

One that says that it changes something, or needs what a read-only run lacks, is asked about at
once: to attempt it would only take time. So is one that hides errors of a program that may change
something: it would seem to have succeeded. Nothing is safe because of this: the sandbox of the
attempt is what prevents changes.
"""

from agent_cli.policies.shell.effects import acts
from agent_cli.policies.shell.hidden_errors import hides_errors
from agent_cli.policies.shell.named_paths import named_paths
from agent_cli.policies.shell.place import Place


def may_only_read(script: str, place: Place) -> bool:
    """Return whether nothing in the text of *script* says that it does more than to read.

    To read a secret is more: the sandbox would hide it.
    """
    kinds = {act.kind for act in acts(script, place)}
    if "acts" in kinds or any(map(place.is_secret, named_paths(script, place))):
        return False
    hides = "hides" in kinds or hides_errors(script)
    return not (hides and "unknown" in kinds)
