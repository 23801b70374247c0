"""Describe the effects of a project's files, once trusted, in sentences without secrets.

It uses the same readers as the code that acts on the files, so that all effects are shown. The
text is untrusted: control characters, which could repaint the question, are escaped.
"""

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent_cli.contracts.errors import SettingsError
from agent_cli.prompt_files.written_servers import written_servers
from agent_cli.settings.env_file import read_env_file
from agent_cli.settings.hook_files import (
    claude_hooks,
    entries_of,
    project_hooks,
    scripts_of,
    words_of,
)
from agent_cli.settings.keys import value_of
from agent_cli.settings.layers import Layers
from agent_cli.settings.schema import McpServer, Settings
from agent_cli.settings.show import shown_value
from agent_cli.settings.sources import CLAUDE_FILES, Entry, WrittenHooks, read_file
from agent_cli.settings.toml_json import file_entries
from agent_cli.system.commented_json import load_commented
from agent_cli.system.redaction import MASK, Redactor, is_secret_name
from agent_cli.system.shapes import is_array, is_mapping, is_object, is_sequence
from agent_cli.trust.store import AGENT_FOLDERS, STYLE_FOLDERS

_SERVER_PREFIX = "mcp.servers."
_ACTING = ("command", "url", "cwd", "args", "env", "headers", "oauth")
_VALUE_CHARS_MAX = 200
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)")


def effects_of(path: Path, workspace: Path) -> tuple[str, ...]:
    """Return one sentence per effect; an invalid file yields a sentence about that."""
    try:
        if str(path.relative_to(workspace)) in CLAUDE_FILES:
            return tuple(_hooks(claude_hooks(path, from_project=True)))
        if path in scripts_of(project_hooks(workspace), workspace):
            return ("is a file that a hook runs",)
        if path.name == "SKILL.md":
            what = f"tells the model how to do {path.parent.name} (a skill)"
            return (
                _plain(what),
                "adds a command: its text is sent as yours when you type its name",
            )
        if str(path.parent.relative_to(workspace)) in AGENT_FOLDERS:
            return tuple(_agent(path))
        if str(path.parent.relative_to(workspace)) in STYLE_FOLDERS:
            return (_plain(f"tells the model how to answer (output style {path.stem}) if chosen"),)
        if path.suffix == ".md":
            return ("adds a command: its text is sent as yours when you type its name",)
        if path.name == ".env":
            return tuple(_variables(path))
        if path.name == ".mcp.json":
            return tuple(_mcp_json(path))
        return tuple(_settings(path))
    except SettingsError as error:
        return (f"cannot be used as it is: {_plain(str(error))}",)


def _variables(path: Path) -> Iterator[str]:
    variables, _ = read_env_file(path, from_project=True)
    redactor = Redactor()
    for name, value in variables.items():
        shown = MASK if is_secret_name(name) else _short(redactor.text(value))
        yield _plain(f"sets {name} = {shown}")


def _settings(path: Path) -> Iterator[str]:
    layers = Layers()
    layers.take(file_entries(path, from_project=True))
    settings = layers.settings()
    for entries in (entries for key, entries in layers.added.items() if key[:6] == "hooks."):
        yield from _hooks(WrittenHooks(e.path[-1], e.value, e.origin, True) for e in entries)
    for key in layers.origins:
        if not key.startswith("hooks.") and not key.startswith(_SERVER_PREFIX):
            yield _plain(f"sets {key} = {_short(shown_value(_value(settings, key), Redactor()))}")
    yield from map(_server, settings.mcp.servers)


def _hooks(written: Iterable[WrittenHooks]) -> Iterator[str]:
    redactor = Redactor()
    for group in written:
        matcher = group.group.get("matcher") if is_mapping(group.group) else None
        when = f"{group.event} {matcher}" if matcher else group.event
        for hook in entries_of(group):
            acts: list[str] = []
            # Both, if both are written: the type alone decides, and it may be missing or wrong.
            if words := redactor.arguments(words_of(hook)):
                acts.append(f"runs {_short(shlex.join(words))}")
            if url := hook.get("url"):
                acts.append(f"sends calls to {_short(redactor.text(str(url)))}")
            variables = hook.get("allowedenvvars")
            given = _given(*map(str, variables)) if is_sequence(variables) else ""
            yield _plain(f"{' and '.join(acts) or 'runs nothing'}{given} (hook, {when})")


def _value(settings: Settings, key: str) -> object:
    alias = key.removeprefix("models.")
    return settings.models[alias] if alias != key else value_of(settings, key)


def _short(text: str) -> str:
    return text if len(text) <= _VALUE_CHARS_MAX else f"{text[:_VALUE_CHARS_MAX]}…"


def _mcp_json(path: Path) -> Iterator[str]:
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
        yield _server(written)


def _agent(path: Path) -> Iterator[str]:
    yield _plain(f"tells an agent called {path.stem} what to do, when the model starts it")
    try:
        servers = written_servers(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError) as error:
        yield f"cannot be used as it is: {_plain(str(error))}"
        return
    for name, entry in servers.entries.items() if servers else ():
        yield f"{_server(_as_written(name, entry))}, for that agent"


def _as_written(name: str, entry: object) -> McpServer:
    """Return the acting parts of *entry*, ignoring invalid ones."""
    given = entry if is_object(entry) else {}
    command, url, cwd, args, env, headers, oauth = (given.get(key) for key in _ACTING)
    return McpServer(
        name,
        command=command if isinstance(command, str) else "",
        args=tuple(map(str, args)) if is_array(args) else (),
        env=_texts(env),
        cwd=cwd if isinstance(cwd, str) else "",
        url=url if isinstance(url, str) else "",
        headers=_texts(headers),
        oauth=_texts(oauth),
    )


def _texts(given: object) -> dict[str, str]:
    return {key: str(value) for key, value in given.items()} if is_object(given) else {}


def _server(server: McpServer) -> str:
    redactor = Redactor()
    acts: list[str] = []
    if server.command:
        command = shlex.join((server.command, *redactor.arguments(server.args)))
        where = f" in {server.cwd}" if server.cwd else ""
        # A variable can make a harmless command run a different program.
        variables = f" with {', '.join(server.env)} set" if server.env else ""
        acts.append(f"starts {command}{where}{variables}")
    if server.url:
        acts.append(f"connects to {redactor.text(server.url)}")
    # A repository may ask for any variable of the user, to send it anywhere.
    parts = [server.command, *server.args, server.cwd, server.url]
    tables = (server.env, server.headers, server.oauth)
    given = _given(*_VARIABLE.findall(str([*parts, *map(dict, tables)])))
    return _plain(f"{' and '.join(acts) or 'starts nothing'}{given} (MCP server {server.name})")


def _given(*variables: str) -> str:
    names = ", ".join(dict.fromkeys(variables))
    return f"; it gets the values of {names}" if names else ""


def _plain(text: str) -> str:
    """Return *text* with everything but printable ASCII escaped."""
    return json.dumps(text)[1:-1].replace('\\"', '"')
