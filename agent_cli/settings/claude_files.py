"""Settings files of Claude Code: their hooks and their permission rules.

Imported only if there is such a file. The code that defines hooks validates them, and
`policies.claude_rules` translates the rules.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from agent_cli.contracts.errors import SettingsError
from agent_cli.settings.sources import RULE_KINDS, WrittenHooks, WrittenRule, read_file
from agent_cli.settings.toml_json import json_line
from agent_cli.system.paths import is_file
from agent_cli.system.shapes import is_array, is_object

_GUARDS = ("ask", "deny")


class ClaudeFile(NamedTuple):
    """A settings file as read: its text, and its object as far as it is one."""

    path: Path
    text: str
    document: dict[str, object]

    @classmethod
    def read(cls, path: Path) -> "ClaudeFile":
        """Read the file at *path*.

        Raises:
            SettingsError: The file cannot be read, so a guard in it would have no effect.
        """
        text = read_file(path)
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SettingsError(
                f"{path} is not valid JSON, so its hooks and permission rules cannot be read:"
                " correct it, or set hooks.claude_files = false and"
                " permissions.claude_files = false"
            ) from error
        return cls(path, text, document if is_object(document) else {})

    def hooks(self, *, from_project: bool) -> Iterator[WrittenHooks]:
        """Yield the groups of hooks."""
        hooks = self.document.get("hooks")
        if not hooks or self.document.get("disableAllHooks") is True:
            return
        if not is_object(hooks):
            hooks = {"PreToolUse": ["hooks"]}  # not a table: a hook that blocks with an error
        for event, groups in hooks.items():
            origin = self._origin("hooks", event)
            for group in groups if is_array(groups) else [groups]:
                yield WrittenHooks(event, group, origin, from_project)

    def rules(self, *, from_project: bool) -> Iterator[WrittenRule]:
        """Yield the permission rules; a project's only if they ask or deny."""
        permissions = self.document.get("permissions")
        if not is_object(permissions):
            return
        for kind in _GUARDS if from_project else RULE_KINDS:
            rules = permissions.get(kind)
            for rule in rules if is_array(rules) else ():
                origin = self._origin("permissions", kind, str(rule))
                yield WrittenRule(kind, str(rule), origin, of_claude=True)

    def _origin(self, *key: str) -> str:
        line = json_line(self.text, key)
        return f"{self.path}:{line}" if line else str(self.path)


def is_acting(path: Path) -> bool:
    """Return whether a project's settings file has hooks or guarding rules, or cannot be read."""
    if not is_file(path):
        return False
    try:
        file = ClaudeFile.read(path)
    except SettingsError:
        return True
    return any(True for part in (file.hooks, file.rules) for _ in part(from_project=True))
