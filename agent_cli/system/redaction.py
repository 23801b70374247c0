"""Redact secrets in text before it is shown or written: logs, errors, `config show`.

It knows the values of the secrets in this environment and the patterns of common ones; other
secrets are not recognised.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from agent_cli.system.loading import late_pattern
from agent_cli.system.shapes import is_mapping

MASK = "***"

_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS")
# Shorter values ("1", "true", "local") would redact ordinary words everywhere.
_SECRET_CHARS_MIN = 8

# Keys that their first letters name, whatever stands around them; those letters stay. The hints are
# as those below.
_KEY_HINTS = (
    *("k_live_", "k_test_", "gho_", "ghp_", "ghs_", "ghr_", "ghu_", "hf_", "npm_", "github_pat_"),
    *("glpat-", "xox", "sk-proj-", "AIza"),
)
_NAMED_KEYS = late_pattern(
    r"\b((?:sk|rk)_(?:live|test)_|gh[opsru]_|hf_|npm_)[A-Za-z0-9]{16,}"
    r"|\b(github_pat_|glpat-|xox[abeprs]-|sk-proj-|AIza)[\w-]{16,}"
)
_WORDS = ("key", "token", "secret", "password", "signature", "auth")
# Each with what is in every ASCII text that it fits, in lower case: most texts have none of it, and
# to look for it takes a fiftieth of the time.
_SHAPES = [
    (hints, late_pattern(shape, re.IGNORECASE))
    for hints, shape in (
        (("sk-ant-",), r"sk-ant-[\w-]{6,}"),
        (("akia", "asia"), r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}"),
        (("absk", "bedrock-api-key-"), r"\b(?:ABSK|bedrock-api-key-)[\w+/=-]{16,}"),
        (("ya29.",), r"\bya29\.[\w-]{10,}"),
        (("signature=",), r"(?<=Signature=)[0-9a-f]{64}"),
        (("bearer ",), r"(?<=bearer )[\w.~+/=-]{6,}"),
        (("@",), r"(?<=://)[^\s/@]+(?=@)"),
        # Of a login; shorter ones are numbers and names.
        (("code=",), r"(?<=[?&])(code=)[\w.~%+/-]{16,}"),
        (
            tuple(f"{word}=" for word in _WORDS),
            rf"(?<=[?&#])((?:[\w-]*(?:{'|'.join(_WORDS)}))=)[^\s&#\"']+",
        ),
        (
            _WORDS,
            r"((?:api[_-]?key|auth[_-]?token|access[_-]?token|token|secret|password)"
            r"[\"']?\s*[=:]\s*[\"']?)[^\s\"',;&]{6,}",
        ),
    )
]

_HINTS = tuple(hint for hints, _ in _SHAPES for hint in hints)


class Redactor:
    """Replaces every known or recognised secret by `***`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: set[str] = set()
        self._known: re.Pattern[str] | None = None
        self.learn(secrets)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Redactor":
        """Return a redactor that knows the values of all variables named like secrets."""
        return cls(secrets_in(environment))

    def learn(self, secrets: Iterable[str]) -> None:
        """Also redact *secrets* from now on."""
        self._secrets.update(each for each in secrets if len(each) >= _SECRET_CHARS_MIN)
        # Longest first, since one secret may begin with another.
        known = sorted(self._secrets, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        """Return *text* with its secrets redacted."""
        if self._known:
            text = self._known.sub(MASK, text)
        text = without_named_keys(text)
        lower = text.lower() if text.isascii() else ""  # other letters count as ASCII ones, too
        if lower and not any(map(lower.__contains__, _HINTS)):
            return text
        for hints, shape in _SHAPES:
            if not lower or any(hint in lower for hint in hints):
                text = shape.sub(rf"\g<1>{MASK}" if shape.groups else MASK, text)
        return text

    # Any: JSON, whose type is defined in a higher layer.
    def value(self, value: object) -> Any:
        """Return *value* as JSON with its secrets redacted, and all text under a secret's name."""
        if isinstance(value, str):  # first, since most are: abstract types take long to ask about
            return self.text(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if is_mapping(value):
            return {str(key): self._named(str(key), part) for key, part in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, bytes):
            return [self.value(part) for part in cast("Sequence[object]", value)]
        return self.text(repr(value))

    def _named(self, name: str, value: object) -> Any:
        return MASK if isinstance(value, str) and is_secret_name(name) else self.value(value)

    def arguments(self, arguments: Sequence[str]) -> tuple[str, ...]:
        """Return a command's arguments with secrets redacted, also the value of `--token VALUE`."""
        shown: list[str] = []
        for previous, argument in zip(("", *arguments), arguments, strict=False):
            hidden = previous.startswith("-") and is_secret_name(previous.lstrip("-"))
            shown.append(MASK if hidden else self.text(argument))
        return tuple(shown)


def without_named_keys(text: str) -> str:
    """Return *text* with keys masked that can be nothing else: sk_live_***, ghp_***."""
    if not any(hint in text for hint in _KEY_HINTS):
        return text
    return _NAMED_KEYS.sub(lambda key: f"{key[1] or key[2]}{MASK}", text)


def secrets_in(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of all variables named like secrets."""
    return (value for name, value in environment.items() if is_secret_name(name))


def is_secret_name(name: str) -> bool:
    """Return whether the name of a variable, header or option indicates a secret."""
    words = name.upper().replace("-", "_").split("_")
    return any(word.endswith(_SECRET_WORDS) for word in words)
