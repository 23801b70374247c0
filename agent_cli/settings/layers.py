"""Merge layers of settings: find the key, check the value, keep the origin, tell guards.

It knows the schema but no source: values of files, variables and options arrive as `Entry`. Guards
are the settings of a project that only restrict the model (hooks that may block, rules that ask or
deny); they hold on when another part of their file is no longer trusted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, cast, get_args, get_origin

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.wording import first_named, one_line
from agent_cli.contracts.written_hooks import NOT_HERE, guards_on
from agent_cli.settings import ENVIRONMENT_PREFIX, GUARD_KINDS, Entry, KeyPath
from agent_cli.settings.rules import SettingRule, fold
from agent_cli.settings.schema import Settings
from agent_cli.system import paths
from agent_cli.system.shapes import is_array, is_mapping, is_object, is_sequence

# Top-level keys in the settings files of older programs.
OLD_NAMES = {
    "maxtoolresultchars": "history.max_tool_result_chars",
    "maxconversationmessages": "history.max_conversation_messages",
    "compactionstrategy": "compaction.strategy",
    "compactionthresholdtokens": "compaction.threshold_tokens",
    "protectedtailmessages": "compaction.protected_tail_messages",
    "loglevel": "logging.level",
    "logconsumers": "logging.sinks",
    "mcpservers": "mcp.servers",
}
_FOUND_CHARS_MAX = 60
_NAMED_MAX = 3


class Layers:
    """The merged layers so far; a later one wins.

    Attributes:
        origins: The origin of every value that was set, by dotted key.
        added: An entry for each item of the lists that all layers add to, by dotted key.
        notices: Sentences about entries left out.
    """

    def __init__(self) -> None:
        self.origins: dict[str, str] = {}
        self.added: dict[str, list[Entry]] = {}
        self.notices: list[str] = []
        self._rules = all_rules()
        self._keys = {fold(key): key for key in self._rules} | OLD_NAMES
        self._values: dict[str, object] = {}

    def take(self, layer: Iterable[Entry]) -> None:
        """Put one more layer on top."""
        for entry in layer:
            key, rest = self._find(entry.path)
            if not key:
                self._reject(entry)
            elif entry.from_project and self._rules[key].user_only:
                self.notices.append(
                    f"{entry.origin}: {key} cannot be set by a project;"
                    f" set it in {paths.user_settings_file()}"
                )
            elif rest:
                self._put(key, entry._replace(value={rest[0]: entry.value}, is_text=False))
            else:
                self._put(key, entry)

    def settings(self) -> Settings:
        """Build the frozen settings."""
        # Any: the schema's rules, not the type checker, have checked every value.
        changes: dict[str, Any] = {}
        for key, value in self._values.items():
            section, _, name = key.rpartition(".")
            if section:
                before = changes.get(section, getattr(Settings(), section))
                changes[section] = before._replace(**{name: value})
            else:
                changes[name] = value
        return Settings()._replace(**changes)

    def _find(self, path: KeyPath) -> tuple[str, KeyPath]:
        """Return the key for a path ("" if unknown), and the rest of the path below that key."""
        key = self._keys.get(fold(".".join(path)), "")
        if key:
            return key, ()
        key = self._keys.get(fold(".".join(path[:-1])), "")
        rule = self._rules.get(key)
        goes_on = rule is not None and (rule.by_name or rule.item is not None)
        return (key, path[-1:]) if goes_on else ("", ())

    def _reject(self, entry: Entry) -> None:
        """Warn about an unknown key of a file or variable; anything else is an error.

        Raises:
            SettingsError: A program gave the key, or it is a table and has a plain value.
        """
        written = ".".join(entry.path)
        if fold(written) in sections():
            raise SettingsError(f"{entry.origin}: {written} must be a table, [{fold(written)}]")
        why = NOT_HERE.get(entry.path[-1]) if fold(entry.path[0]) == "hooks" else None
        hint = f": {why}" if why else _nearest(written, self._keys)
        if entry.must_exist:
            hint = hint or "; agent-cli config example lists all"
            raise SettingsError(f"{entry.origin}: unknown setting {written}{hint}")
        self.notices.append(f"{entry.origin}: unknown setting {written}{hint}")

    def _put(self, key: str, entry: Entry) -> None:
        rule = self._rules[key]
        value = _checked(key, rule, entry, entry.value)
        before = self._values.get(key, value_of(Settings(), key))
        lifts = entry.from_project and rule.stricter and rule.stricter(before, value) != value
        if rule.item and is_array(value):
            self._put_records(key, [self._record(key, rule, entry, raw) for raw in value], entry)
        elif is_mapping(value) and is_mapping(before):
            named = {name.lower(): part for name, part in value.items()}
            self.origins |= {f"{key}.{name}": entry.origin for name in named}
            self._values[key] = MappingProxyType({**before, **named})
        elif isinstance(value, tuple) and isinstance(before, tuple) and (rule.append or entry.adds):
            items = cast("tuple[object, ...]", value)
            self._values[key] = before + items
            self.added.setdefault(key, []).extend(entry._replace(value=item) for item in items)
            earlier = self.origins.get(key)
            self.origins[key] = f"{earlier}, {entry.origin}" if earlier else entry.origin
        elif lifts:
            self.notices.append(
                f"{entry.origin}: {key} = {value} would lift your limit, {before}, which stays;"
                f" raise it in {paths.user_settings_file()}"
            )
        else:
            self._values[key] = value
            self.origins[key] = entry.origin

    def _put_records(self, key: str, records: list[tuple[object, ...]], entry: Entry) -> None:
        """Replace records of the same name; without names, replace the whole list."""
        rule = self._rules[key]
        if rule.item and "name" in rules_of(rule.item):
            before = self._values.get(key, ())
            assert is_sequence(before)
            names = [record[0] for record in records]
            for name in dict.fromkeys(name for name in names if names.count(name) > 1):
                self.notices.append(
                    f"{entry.origin}: {key} has several entries named {name!r}, and only the last"
                    " counts; give each a name of its own"
                )
            by_name = {record[0]: record for record in (*before, *records)}
            self._values[key] = tuple(by_name.values())
            self.origins |= {f"{key}.{record[0]}": entry.origin for record in records}
        else:
            self._values[key] = tuple(records)
            self.origins[key] = entry.origin

    def _record(
        self, key: str, rule: SettingRule, entry: Entry, raw: dict[str, object]
    ) -> tuple[object, ...]:
        """Check one table of a list; messages about it include its name."""
        assert rule.item is not None
        rules = rules_of(rule.item)
        names = {fold(name): name for name in rules}
        called = {fold(name): value for name, value in raw.items()}.get("name")
        table = f"{key}.{called}" if called else key
        values: dict[str, object] = {}
        for written, value in (rule.prepare(raw) if rule.prepare else raw).items():
            if name := names.get(fold(written)):
                found = entry._replace(is_text=False)
                values[name] = _checked(f"{table}.{name}", rules[name], found, value)
            else:
                hint = _nearest(written, names)
                self.notices.append(f"{entry.origin}: unknown setting {table}.{written}{hint}")
        if "name" in rules and not called:
            raise SettingsError(f"{entry.origin}: every entry of {key} must have a name")
        record: tuple[object, ...] = rule.item(**values)
        return record


def _checked(key: str, rule: SettingRule, entry: Entry, value: object) -> object:
    try:
        return rule.parse(rule.read(value) if entry.is_text and isinstance(value, str) else value)
    except (ValueError, RecursionError):
        # Without the cause, whose text would quote the value, which may be a secret.
        raise SettingsError(
            f"{entry.origin}: {key} must be {rule.allowed}, not {_found(rule, value)}"
        ) from None


def _found(rule: SettingRule, value: object) -> str:
    """Return the value as JSON, short and without secrets; of several, which are wrong."""
    if is_object(value):
        wrong = [name for name, each in value.items() if not _fits(rule, {name: each})]
        return f"this table{_named(wrong) if _fits(rule, {}) else ''}"
    if is_array(value):
        wrong = [f"entry {n}" for n, each in enumerate(value, 1) if not _fits(rule, [each])]
        return f"this value{_named(wrong) if _fits(rule, []) else ''}"
    if rule.secret:
        return "this value"
    import json  # only after an invalid setting

    found = _redacted(json.dumps(value, ensure_ascii=False, default=str))
    return found if len(found) <= _FOUND_CHARS_MAX else found[:_FOUND_CHARS_MAX] + "…"


def _fits(rule: SettingRule, value: object) -> bool:
    try:
        rule.parse(value)
    except ValueError:
        return False
    return True


def _named(wrong: Sequence[str]) -> str:
    # A secret may have become the name.
    names = [one_line(_redacted(name), _FOUND_CHARS_MAX) for name in wrong[:_NAMED_MAX]]
    named = first_named([*names, *wrong[_NAMED_MAX:]], _NAMED_MAX)
    return f" (wrong: {named})" if wrong else ""


def _redacted(text: str) -> str:
    from agent_cli.system.redaction import Redactor  # only after an invalid setting

    return Redactor().text(text)


def _nearest(written: str, known: Mapping[str, str]) -> str:
    """Return a hint at the known key most similar to *written*, or ""."""
    import difflib

    last_parts = {folded.rpartition(".")[2]: key for folded, key in known.items()}
    folded = fold(written)
    for candidates, word in ((known, folded), (last_parts, folded.rpartition(".")[2])):
        if close := difflib.get_close_matches(word, candidates, n=1, cutoff=0.7):
            return f"; did you mean {candidates[close[0]]}?"
    return ""


def rules_of(record: type) -> dict[str, SettingRule]:
    """Return the rules of a section or record by field name; nested sections are left out."""
    annotations: dict[str, object] = record.__annotations__
    return {
        name: get_args(annotation)[1]
        for name, annotation in annotations.items()
        if get_origin(annotation) is Annotated
    }


def all_rules() -> dict[str, SettingRule]:
    """Return every setting's rule by its dotted key, in the order of the schema."""
    rules = rules_of(Settings)
    for section in sections():
        values: object = getattr(Settings(), section)
        inner = rules_of(type(values))
        rules |= {f"{section}.{name}": rule for name, rule in inner.items()}
    return rules


def sections() -> tuple[str, ...]:
    """Return the names of the tables."""
    own = rules_of(Settings)
    return tuple(name for name in Settings._fields if name not in own)


def value_of(settings: Settings, key: str) -> object:
    """Return the value of a dotted key."""
    value: object = settings
    for part in key.split("."):
        value = getattr(value, part)
    return value


def is_guard(path: Sequence[str]) -> bool:
    """Return whether the key *path*, as written in a file, sets a guard."""
    section, _, name = ".".join(path).partition(".")
    match fold(section):
        case "permissions":
            return fold(name) in GUARD_KINDS
        case "hooks":
            return guards_on(name)
        case _:
            return False


def is_guard_variable(name: str) -> bool:
    """Return whether the environment variable *name* sets a guard."""
    setting = name.removeprefix(ENVIRONMENT_PREFIX)
    return setting != name and is_guard(setting.split("__"))


def only_guards(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the *entries* that set guards."""
    return (entry for entry in entries if is_guard(entry.path))
