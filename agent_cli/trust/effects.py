"""Describe the effects of a project's files, once trusted, in sentences.

It uses the same readers as the code that acts on the files, so that all effects are shown. What
will run is shown whole, as it is written: a repository chooses what looks like a secret, and what
is long. The text is untrusted: control characters, which could repaint the question, are escaped.
Printable ones that are blank are left to `reveal`, of those that show the sentences.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import cache, partial
from pathlib import Path, PurePath
from typing import NamedTuple

from agent_cli.contracts.errors import SettingsError
from agent_cli.prompt_files import prompt_text
from agent_cli.prompt_files.skill_files import FILES
from agent_cli.prompt_files.written_servers import written_servers
from agent_cli.settings import CLAUDE_FILES, SERVERS_FILE, Entry, WrittenHooks, read_file
from agent_cli.settings.env_file import is_user_only
from agent_cli.settings.environment import VARIABLE
from agent_cli.settings.extension_settings import McpServer
from agent_cli.settings.files import ClaudeFile, file_entries
from agent_cli.settings.hook_files import (
    all_scripts_of,
    entries_of,
    hooks_in_files,
    words_of,
)
from agent_cli.settings.layers import Layers, value_of
from agent_cli.settings.schema import Settings
from agent_cli.settings.show import shown_value
from agent_cli.system.json_text import load_commented
from agent_cli.system.paths import is_file
from agent_cli.system.redaction import MASK, Redactor, is_secret_name, without_named_keys
from agent_cli.system.repositories import folder_and_name, project_folders
from agent_cli.system.shapes import is_array, is_mapping, is_object, is_sequence
from agent_cli.trust.parts import server_files
from agent_cli.trust.store import (
    ACTING_FILES,
    AGENT_FOLDERS,
    STYLE_FOLDERS,
    TrustStore,
    acting_files,
    shown_name,
    used_variables,
)

_SERVER_PREFIX = "mcp.servers."
_ACTING = ("command", "url", "cwd", "args", "env", "headers", "oauth")
_HELPER = ("headersHelper", "headers_helper")
_KINDS = {"ask": "asks before", "deny": "denies"}
_SCRIPT = "is a file that a hook runs or reads"
_PROGRAM = "is a file that an MCP server runs, outside the sandbox"
# Only such a value can be no code and no path: a variable may end up in a command.
_TOKEN = re.compile(r"(?=\D*\d)[\w+=-]{12,}", re.ASCII)
_LONG_LINES = 40
_CHANGES = {
    "new": "came since you trusted this folder",
    "changed": "changed since you trusted it",
    "gone": "gone since you trusted it",
    "unused": "acted when you trusted it, and does not now",
}


class ActingFile(NamedTuple):
    """A file that would act, with one sentence per effect.

    `change` is what became of it since the user trusted the workspace, or "".
    """

    path: Path
    effects: tuple[str, ...]
    change: str = ""


def what_would_act(workspace: Path) -> tuple[ActingFile, ...]:
    """Return the files that would act with their effects, for the question to the user.

    What acted when the user trusted the workspace, and acts no longer, stands last.
    """
    changes: dict[str, str] = {}
    with suppress(SettingsError):  # then the trust itself cannot be read or stored
        changes = dict(TrustStore.of_user().standing(workspace).changes)
    found = acting_files(workspace)
    marks = [_CHANGES.get(changes.pop(shown_name(path, workspace), ""), "") for path in found]
    there = map(ActingFile, found, effects_of(found, workspace), marks)
    return (*there, *map(_former, (path_named(name, workspace) for name in changes)))


def path_named(shown: str, workspace: Path) -> Path:
    """Return the file whose `shown_name` is *shown*."""
    return workspace / shown.encode(errors="replace").decode("unicode_escape", "replace")


def _former(path: Path) -> ActingFile:
    return ActingFile(path, (), _CHANGES["unused" if is_file(path) else "gone"])


def effects_of(files: Sequence[Path], workspace: Path) -> Iterator[tuple[str, ...]]:
    """Yield, for each of the acting *files*, one sentence per effect.

    An invalid file yields a sentence about that.
    """
    # Once: each reads all the files, and there may be hundreds.
    scripts = frozenset(all_scripts_of(hooks_in_files(workspace), workspace))
    programs = frozenset(server_files(files, workspace))
    variables = cache(partial(used_variables, workspace))
    around = project_folders(workspace)
    for path in files:
        name = PurePath(folder_and_name(path, around)[1])
        yield _effects(path, name, variables, scripts=scripts, programs=programs)


def _effects(
    path: Path,
    name: PurePath,
    variables: Callable[[], Mapping[str, str]],
    *,
    scripts: Set[Path],
    programs: Set[Path],
) -> tuple[str, ...]:
    folders = {*map(str, name.parents)}
    try:
        if str(name) in CLAUDE_FILES:
            file = ClaudeFile.read(path)
            rules = (_plain(f"{_KINDS[x.kind]} {x.text}") for x in file.rules(from_project=True))
            return (*rules, *hook_effects(file.hooks(from_project=True)))
        if path in scripts:
            return (_SCRIPT,)
        if path.name in FILES:
            what = f"tells the model how to do {path.parent.name} (a skill)"
            return (
                _plain(what),
                "adds a command: its text is sent as yours when you type its name",
            )
        if not folders.isdisjoint(AGENT_FOLDERS):
            return tuple(_agent(path, variables()))
        if not folders.isdisjoint(STYLE_FOLDERS):
            return (_plain(f"tells the model how to answer (output style {path.stem}) if chosen"),)
        if str(name) not in ACTING_FILES and path in programs:
            return (_PROGRAM,)
        if path.suffix == ".md":
            return ("adds a command: its text is sent as yours when you type its name",)
        if path.name == ".env":
            return tuple(_variables(variables()))
        if path.name == SERVERS_FILE:
            return tuple(_mcp_json(path, variables()))
        return tuple(_settings(path, variables()))
    except SettingsError as error:
        return (f"cannot be used as it is: {_plain(str(error))}",)


def listing(files: Iterable[ActingFile], workspace: Path, *, whole: bool = False) -> Iterator[str]:
    """Yield lines that list *files* and their effects; with *whole* also the text of scripts."""
    lines = 0
    for file in files:
        lines += 1 + len(file.effects)
        change = f" ({file.change})" if file.change else ""
        yield f"  {shown_name(file.path, workspace)}{change}"
        for effect in file.effects:
            yield f"    {effect}"
        if whole and not {_SCRIPT, _PROGRAM}.isdisjoint(file.effects):
            yield from _text_of(file.path)
    if lines > _LONG_LINES and not whole:
        yield f"that is long: `agent-cli trust --show | less` shows these {lines} lines again"


def _text_of(path: Path) -> Iterator[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        yield f"      cannot be read: {error.strerror}"
        return
    yield from (f"      | {_plain(line)}" for line in text.splitlines())


def _variables(variables: Mapping[str, str]) -> Iterator[str]:
    """Yield the names; the values may be keys, and one that runs stands where it runs."""
    yield from (_plain(f"sets {name} (its value is not shown)") for name in variables)


def _settings(path: Path, variables: Mapping[str, str]) -> Iterator[str]:
    layers = Layers()
    layers.take(file_entries(path, from_project=True))
    settings = layers.settings()
    for entries in (entries for key, entries in layers.added.items() if key[:6] == "hooks."):
        yield from hook_effects(WrittenHooks(e.path[-1], e.value, e.origin, True) for e in entries)
    for key in layers.origins:
        if not key.startswith("hooks.") and not key.startswith(_SERVER_PREFIX):
            yield _plain(f"sets {key} = {shown_value(_value(settings, key), Redactor())}")
    yield from (_server(server, variables) for server in settings.mcp.servers)


def hook_effects(written: Iterable[WrittenHooks]) -> Iterator[str]:
    """Yield a sentence for each hook of the groups *written*."""
    for group in written:
        matcher = group.group.get("matcher") if is_mapping(group.group) else None
        when = f"{group.event} {matcher}" if matcher else group.event
        for hook in entries_of(group):
            acts: list[str] = []
            # Both, if both are written: the type alone decides, and it may be missing or wrong.
            command, args = hook.get("command"), hook.get("args")
            if isinstance(command, str) and command:
                is_exact = is_sequence(args)
                acts.append(f"runs {shlex.join(words_of(hook)) if is_exact else command}")
            if prompt := hook.get("prompt"):
                who = "an agent that reads files" if hook.get("type") == "agent" else "a model"
                acts.append(f"has {who} judge, at your cost, by: {prompt}")
            if server := hook.get("server"):
                arguments = json.dumps(hook.get("input") or {})
                acts.append(f"calls {hook.get('tool')} of MCP server {server} with {arguments}")
            if url := hook.get("url"):
                acts.append(f"sends calls to {_address(str(url))}")
            variables = hook.get("allowedenvvars")
            named = ", ".join(map(str, variables)) if is_sequence(variables) else ""
            values = f" and the values of {named}" if named else ""
            gets = f"; it gets this session's calls or messages{values}" if acts else ""
            yield _plain(f"{' and '.join(acts) or 'runs nothing'}{gets} (hook, {when})")


def _value(settings: Settings, key: str) -> object:
    alias = key.removeprefix("models.")
    return settings.models[alias] if alias != key else value_of(settings, key)


def _shown(name: str, value: str) -> str:
    """Return the value of a variable; a mask for one that can only be a key."""
    return MASK if is_secret_name(name) and _TOKEN.fullmatch(value) else value


def _address(url: str) -> str:
    """Return *url*, with masks for keys in its query; all that says where it leads is shown."""
    address, mark, query = url.partition("?")
    parts = [part.partition("=") for part in query.split("&")]
    shown = (f"{name}{equals}{_shown(name, value)}" for name, equals, value in parts)
    return address + mark + "&".join(shown)


def _mcp_json(path: Path, variables: Mapping[str, str]) -> Iterator[str]:
    try:
        # As the code that starts the servers reads it: with comments, and keys in one spelling.
        document = load_commented(read_file(path))
    except (ValueError, RecursionError) as error:
        yield f"cannot be used as it is: it is not valid JSON ({_plain(str(error))})"
        return
    servers = document.get("mcpServers") if is_object(document) else None
    for name, entry in servers.items() if is_object(servers) else ():
        written = _as_written(name, entry)
        try:
            # One at a time: an invalid server must not hide the others.
            Layers().take([Entry(("mcp", "servers", name), entry, str(path))])
        except SettingsError as error:
            yield f"cannot be used as it is: {_plain(str(error))}"
            # The reader that acts on this file accepts some entries that this one rejects.
            if not (written.command or written.url):
                continue
        yield _server(written, variables)


def server_effects(servers: Mapping[str, object]) -> Iterator[str]:
    """Yield a sentence for each of *servers*, entries as written, by name."""
    yield from (_server(_as_written(name, entry), {}) for name, entry in servers.items())


def _agent(path: Path, variables: Mapping[str, str]) -> Iterator[str]:
    yield _plain(f"tells an agent called {path.stem} what to do, when the model starts it")
    yield from agent_effects(path, variables)


def agent_effects(path: Path, variables: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield a sentence for each MCP server that an agent's definition starts."""
    try:
        servers = written_servers(prompt_text(path))
    except (OSError, ValueError) as error:
        yield f"cannot be used as it is: {_plain(str(error))}"
        return
    for name, entry in servers.entries.items() if servers else ():
        yield f"{_server(_as_written(name, entry), variables or {})}, for that agent"


def _as_written(name: str, entry: object) -> McpServer:
    """Return the acting parts of *entry*, ignoring invalid ones."""
    table = entry if is_object(entry) else {}
    command, url, cwd, args, env, headers, oauth = (table.get(key) for key in _ACTING)
    return McpServer(
        name,
        command=command if isinstance(command, str) else "",
        args=tuple(map(str, args)) if is_array(args) else (),
        env=_texts(env),
        cwd=cwd if isinstance(cwd, str) else "",
        url=url if isinstance(url, str) else "",
        headers=_texts(headers),
        headers_helper=next((str(table[key]) for key in _HELPER if key in table), ""),
        oauth=_texts(oauth),
    )


def _texts(table: object) -> dict[str, str]:
    return {key: str(value) for key, value in table.items()} if is_object(table) else {}


def _server(server: McpServer, variables: Mapping[str, str]) -> str:
    acts: list[str] = []
    if server.command:
        command = shlex.join((server.command, *server.args))
        where = f" in {server.cwd}" if server.cwd else ""
        # A variable can make a harmless command run a different program.
        pairs = (f"{name}={shlex.quote(_shown(name, each))}" for name, each in server.env.items())
        environment = f" with {' '.join(pairs)}" if server.env else ""
        acts.append(f"starts {command}{where}{environment}")
    if server.url:
        acts.append(f"connects to {_address(server.url)}")
    if (resource := server.oauth.get("resource")) is not None:
        # The server gets what opens another service, if the user signs in.
        service = shlex.quote(str(resource)) if resource else "no certain service"
        acts.append(f"signs in for {service}")
    if server.headers_helper and server.url:
        acts.append(f"runs {shlex.quote(server.headers_helper)} for its headers")
    # A repository may ask for any variable of the user, to send it anywhere.
    parts = [server.command, *server.args, server.cwd, server.url]
    tables = (server.env, server.headers, server.oauth)
    sent = _values_sent(*VARIABLE.findall(str([*parts, *map(dict, tables)])))
    acting = ", ".join(f"{each} = {variables[each]}" for each in _running(server, variables))
    expanded = f"; in it {acting}" if acting else ""
    does = " and ".join(acts) or "starts nothing"
    return _plain(f"{does}{expanded}{sent} (MCP server {server.name})")


def _running(server: McpServer, variables: Mapping[str, str]) -> Sequence[str]:
    """Return the project's own *variables* that decide what *server* runs or reaches."""
    programs = [value for name, value in server.env.items() if is_user_only(name)]
    parts = (server.command, *server.args, server.cwd, server.url.partition("?")[0], *programs)
    used = VARIABLE.findall("\n".join(parts))
    return [name for name in dict.fromkeys(used) if name in variables]


def _values_sent(*variables: str) -> str:
    names = ", ".join(dict.fromkeys(variables))
    return f"; it gets the values of {names}" if names else ""


def _plain(text: str) -> str:
    """Return *text* with what does not print, as Unicode defines it, escaped; known keys masked."""
    text = json.dumps(without_named_keys(text), ensure_ascii=False)[1:-1].replace('\\"', '"')
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
