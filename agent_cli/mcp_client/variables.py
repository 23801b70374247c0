"""Expand `${VAR}` and `${VAR:-default}` in configuration files with values from a mapping."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agent_cli.contracts.errors import SettingsError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Expansion:
    """Expands `${VAR}` and `${VAR:-default}`; the default also replaces an empty value."""

    environment: Mapping[str, str]

    def of(self, key: str, text: str) -> str:
        """Return *text* expanded; *key* names it in errors.

        Raises:
            SettingsError: A variable is not set and has no default.
        """

        def value(found: re.Match[str]) -> str:
            variable, default = found[1], found[2]
            known = self.environment.get(variable)
            if known is None and default is None:
                raise SettingsError(
                    f'"{key}" uses ${{{variable}}}, which is not set; '
                    f"set it or write ${{{variable}:-default}}"
                )
            return known or default or ""

        return _VARIABLE.sub(value, text)
