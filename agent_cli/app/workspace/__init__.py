"""The workspace of a session: its folders, what commands reach and may lose there.

The package begins with the files that the model may not read without approval.
"""

from collections.abc import Callable
from pathlib import Path, PurePath

from agent_cli.policies.permission_rules import RuleSet
from agent_cli.sandbox.secret_files import holds_token, is_behind_a_secret, is_other_name, is_secret


def reason_to_keep_back(rules: RuleSet, root: Path) -> Callable[[PurePath], str]:
    """Return a function that says why the model needs approval to read a path, or "".

    Args:
        rules: The user's rules; only those that deny or ask count.
        root: The workspace.
    """

    def reason(path: PurePath) -> str:
        is_other = is_other_name(path, root, Path.home()) or is_behind_a_secret(path)
        if is_secret(path) or is_other or holds_token(path):
            return "it may hold secrets"
        hidden = rules.hides(path, root, kinds=("deny", "ask"))
        return "a permission rule keeps it from the model" if hidden else ""

    return reason
