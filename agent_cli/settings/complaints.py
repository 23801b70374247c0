"""The words for an invalid setting: the value found, and the key that was probably meant.

Imported only after an invalid setting.
"""

import difflib
import json
from collections.abc import Mapping

from agent_cli.settings.rules import SettingRule, fold
from agent_cli.system.redaction import Redactor

_FOUND_CHARS_MAX = 60


def found_text(rule: SettingRule, value: object) -> str:
    """Return the value as JSON, short and without secrets."""
    if rule.secret or isinstance(value, dict | list):
        return f"this {'table' if isinstance(value, dict) else 'value'}"
    found = Redactor().text(json.dumps(value, ensure_ascii=False, default=str))
    return found if len(found) <= _FOUND_CHARS_MAX else found[:_FOUND_CHARS_MAX] + "…"


def nearest_hint(written: str, known: Mapping[str, str]) -> str:
    """Return a hint at the known key most similar to *written*, or ""."""
    last_parts = {folded.rpartition(".")[2]: key for folded, key in known.items()}
    folded = fold(written)
    for candidates, word in ((known, folded), (last_parts, folded.rpartition(".")[2])):
        if close := difflib.get_close_matches(word, candidates, n=1, cutoff=0.7):
            return f"; did you mean {candidates[close[0]]}?"
    return ""
