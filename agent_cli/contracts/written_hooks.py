"""The table of a lifecycle hook as a file holds it."""

from collections.abc import Mapping


def folded_keys(hook: Mapping[str, object]) -> dict[str, object]:
    """Return the table of a hook with its keys in lowercase and without underscores.

    The code that defines hooks and the code that describes them to the user both read this form: a
    key that only the first understood would hide a command.
    """
    return {str(key).replace("_", "").lower(): value for key, value in hook.items()}
