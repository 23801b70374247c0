"""The setups of other agents: findings in them, and the files that `agent-cli import` writes.

What is found is used unchanged, translated, or left out with a reason. A reader of one program
(claude.py, codex.py, ...) fills `Findings`, and opens a file only to read it.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.wording import counted, first_named
from agent_cli.mcp_client.config import ServerProblem
from agent_cli.mcp_client.entries import server_config
from agent_cli.policies.permission_rules import parse_rule
from agent_cli.system.config_text import config_text
from agent_cli.system.records import dataclass, field
from agent_cli.system.redaction import Redactor, is_secret_name
from agent_cli.system.shapes import is_array, is_object

Verdict: TypeAlias = Literal["used as it is", "translated", "cannot"]
USED: Final[Verdict] = "used as it is"
TRANSLATED: Final[Verdict] = "translated"
CANNOT: Final[Verdict] = "cannot"

# Reasons, and what to do instead, that hold for several programs.
NO_COUNTERPART: Final = "has no counterpart here"
NO_KEYBINDINGS: Final = "choose keys in [ui.keys], or vi's by ui.vi"
NO_THEME: Final = "the themes are dark, light, high-contrast and none: ui.theme"
NO_YOLO: Final = "say it at each start: agent-cli --permission-mode yolo"
NOT_READ: Final = "nothing here reads a file of this name"
PROMPTS_FOUND: Final = "the prompts typed there; agent-cli sessions search --all finds them"
SESSIONS_LISTED: Final = "agent-cli sessions list --all; agent-cli -r ID goes on in a copy"
WRITE_AGENTS: Final = "write each as a Markdown file: docs/agents.md"

_T = TypeVar("_T")
_NAMES_MAX: Final = 6
# A literal that is probably a key, whatever its name says.
_KEY: Final = re.compile(r"[\w+=-]{24,}", re.ASCII)
_IN_KEY: Final = re.compile(r"(?=\D*\d)[^A-Za-z]*[A-Za-z]", re.ASCII)
_VARIABLE: Final = re.compile(r"\$\{\w+(:-[^}]*)?\}")


@dataclass(frozen=True, slots=True)
class SetupPart:
    """One thing of a setup.

    Attributes:
        kind: "agents", "hooks", "setting", ...
        name: Its name, or the names of several.
        verdict: What becomes of it.
        detail: Ours for it, or the reason; without a full stop.
        path: Its file.
    """

    kind: str
    name: str
    verdict: Verdict
    detail: str
    path: Path


@dataclass(slots=True)
class Findings:
    """Everything found of one program, and what an import would write.

    Attributes:
        program: Its name on the command line.
        rows: In the order in which they were found.
        settings: Our settings, by dotted key.
        rules: Permission rules, by kind.
        servers: MCP servers in the format of `.mcp.json`, without keys.
        texts: Other files, by their name below the folder of the import.
    """

    program: str
    rows: list[SetupPart] = field(default_factory=list[SetupPart])
    settings: dict[str, Json] = field(default_factory=dict[str, Json])
    rules: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    servers: dict[str, Mapping[str, Json]] = field(default_factory=dict[str, Mapping[str, Json]])
    texts: dict[str, str] = field(default_factory=dict[str, str])

    def used(self, kind: str, names: Iterable[str], detail: str, path: Path) -> None:
        """Note things that are used as they are, in one row."""
        if listed := [*names]:
            self.rows.append(SetupPart(kind, shortened(listed), USED, detail, path))

    def translated(self, kind: str, name: str, detail: str, path: Path) -> None:
        """Note a thing that is, or would be, translated."""
        self.rows.append(SetupPart(kind, name, TRANSLATED, detail, path))

    def cannot(self, kind: str, name: str, reason: str, path: Path) -> None:
        """Note a thing that nothing here does."""
        self.rows.append(SetupPart(kind, name, CANNOT, reason, path))

    def not_of(self, project: Path, reasons: Mapping[str, str]) -> None:
        """Note the files of a *project* that nothing here reads, and what to do instead."""
        for name, reason in reasons.items():
            if project != Path.home() and (path := project / name).exists():
                self.cannot("project", name, reason, path)

    def state(self, names: Sequence[str], program: str, folder: Path) -> None:
        """Note the files *names* in *folder* that *program* writes for itself."""
        if names:
            self.cannot("state", ", ".join(names), f"state that {program} keeps for itself", folder)

    def setting(self, name: str, key: str, value: Json, path: Path) -> None:
        """Translate a setting into ours."""
        self.settings[key] = value
        self.translated("setting", name, f"{key} = {json.dumps(value, ensure_ascii=False)}", path)

    def read(self, kind: str, name: str, path: Path, parse: Callable[[str], _T]) -> _T | None:
        """Return the text of *path*, parsed by *parse*; None if it cannot be read."""
        try:
            return parse(config_text(path))
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
            self.cannot(kind, name, f"it cannot be read: {error}", path)
            return None

    def rule(self, kind: str, written: str, ours: str, path: Path, *, why_not: str) -> None:
        """Translate a permission rule into *ours*; *why_not*: the reason if that is no rule."""
        try:
            parse_rule(ours)
        except SettingsError:
            self.cannot("permissions", f"{kind} {written}", why_not, path)
            return
        self.rules.setdefault(kind, []).append(ours)
        self.translated("permissions", f"{kind} {written}", f"{kind} {ours}", path)

    def server(self, name: str, entry: Mapping[str, Json], path: Path) -> None:
        """Take an MCP server over, with variables in place of its keys."""
        kept, variables = without_keys(entry)
        if kept is None:
            reason = "its command or address holds a key, which is never copied"
            self.cannot("MCP server", name, f"{reason}: use agent-cli mcp add", path)
            return
        if "${" not in str(kept):  # else it depends on variables of the start
            found = server_config(name, kept, {}, source=str(path))
            if isinstance(found, ServerProblem):
                self.cannot("MCP server", name, found.reason.partition(f".{name}: ")[2], path)
                return
        self.servers[name] = kept
        needs = f"; set {', '.join(variables)} in your environment" if variables else ""
        self.translated("MCP server", name, f"copied without keys{needs}", path)

    def contents(self) -> dict[str, str]:
        """Return the files of the import, by their names."""
        files = dict(self.texts)
        document: dict[str, Json] = {}
        for key, value in self.settings.items():
            section, _, name = key.rpartition(".")
            table = document.setdefault(section, {}) if section else document
            assert isinstance(table, dict)
            table[name] = value
        if self.rules:
            rules: dict[str, Json] = {kind: [*texts] for kind, texts in self.rules.items()}
            table = document.setdefault("permissions", {})
            assert isinstance(table, dict)
            table |= rules
        if document:
            files["appsettings.json"] = _json(document)
        if self.servers:
            servers: dict[str, Json] = {name: dict(each) for name, each in self.servers.items()}
            files["mcp.json"] = _json({"mcpServers": servers})
        return files

    def summary(self) -> str:
        """Return the number of things of each verdict."""
        counts = ", ".join(
            f"{sum(row.verdict == verdict for row in self.rows)} {verdict}"
            for verdict in (USED, TRANSLATED, CANNOT)
        )
        return f"{counted(len(self.rows), 'row')}: {counts}"


def shortened(names: Sequence[str]) -> str:
    """Return the first of *names*, and the number of the others."""
    return first_named(names, _NAMES_MAX)


def without_keys(entry: Mapping[str, Json]) -> tuple[dict[str, Json] | None, tuple[str, ...]]:
    """Return a server's entry with variables for its keys, and their names.

    The entry is None if a key stands where no variable can be put by its name.
    """
    kept: dict[str, Json] = {}
    variables: list[str] = []
    for field_name, value in entry.items():
        if field_name in ("env", "headers") and isinstance(value, dict):
            table: dict[str, Json] = {}
            for name, text in value.items():
                variable = re.sub(r"\W", "_", name).upper()
                is_kept = not isinstance(text, str) or not _holds_key(name, text)
                table[name] = text if is_kept else f"${{{variable}}}"
                variables += () if is_kept else (variable,)
            kept[field_name] = table
        elif field_name == "oauth" and isinstance(value, dict):
            kept[field_name] = {k: v for k, v in value.items() if not is_secret_name(k)}
        elif _any_key(value):
            return None, ()
        else:
            kept[field_name] = value
    return kept, tuple(dict.fromkeys(variables))


def _holds_key(name: str, text: str) -> bool:
    literal = _VARIABLE.sub("", text)
    if not literal or literal == "Bearer ":
        return False
    return is_secret_name(name) or name.lower() == "authorization" or _looks_like_key(literal)


def _any_key(value: Json) -> bool:
    if isinstance(value, str):
        return _looks_like_key(_VARIABLE.sub("", value))
    if is_array(value):
        texts = [str(each) for each in value]
        return [*Redactor().arguments(texts)] != texts or any(map(_any_key, texts))
    return is_object(value) and any(_any_key(each) for each in value.values())


def _looks_like_key(text: str) -> bool:
    return Redactor().text(text) != text or has_shape_of_key(text)


def has_shape_of_key(text: str) -> bool:
    """Return whether *text* holds a long word, and a letter and a digit in it or behind it."""
    # Where the first such word has none behind it, no later one has.
    found = _KEY.search(text)
    return found is not None and bool(_IN_KEY.match(text, found.start()))


def _json(document: Mapping[str, Json]) -> str:
    return f"{json.dumps(document, indent=2, ensure_ascii=False)}\n"
