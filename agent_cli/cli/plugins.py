"""`agent-cli plugins`: add plugins in Claude Code's format, shown whole before they count."""

import difflib
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from agent_cli.added_plugins.plugin import AddedPlugin, read_plugin
from agent_cli.added_plugins.sources import Source, fetch, source_of
from agent_cli.added_plugins.store import Pin, PluginStore, contents_of, digest_of
from agent_cli.app.arguments import Arguments
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.wording import counted
from agent_cli.settings.sources import WrittenHooks
from agent_cli.system.paths import real_path
from agent_cli.system.trees import walk
from agent_cli.terminal.confirmation import confirmed
from agent_cli.terminal.sanitize import reveal
from agent_cli.trust.effects import hook_effects, server_effects

_USAGE: Final = (
    "write agent-cli plugins add SOURCE[@REF] [NAME], list, show NAME, update [NAME] or remove NAME"
)
_ACTS: Final = ("agents", "commands", "skills", "outputStyles")
_WORDS: Final[Mapping[str, str]] = {
    "agents": "agent",
    "commands": "command",
    "skills": "skill",
    "outputStyles": "output style",
}


def plugins(arguments: Arguments) -> int:
    """Run the subcommand; return 1 when the person says no, or a plugin cannot be used.

    Raises:
        UsageError: The words are not valid, or the plugin cannot be had.
    """
    store = PluginStore()
    match arguments.operands:
        case ["add", source]:
            return _add(store, source_of(source), yes=arguments.yes)
        case ["add", source, name]:
            return _add(store, source_of(source, name), yes=arguments.yes)
        case ["list"]:
            return _list(store)
        case ["show", name]:
            pin = _pin(store, name)
            _print(described(read_plugin(store.folder_of(name, pin), name)))
            return 0
        case ["update"]:
            codes = [_update(store, name, yes=arguments.yes) for name in store.pins()]
            return max(codes, default=0)
        case ["update", name]:
            _pin(store, name)
            return _update(store, name, yes=arguments.yes)
        case ["remove", name]:
            store.remove(name)
            print(f"{name} is removed")
            return 0
        case _:
            raise UsageError(_USAGE)


def _pin(store: PluginStore, name: str) -> Pin:
    pins = store.pins()
    if name not in pins:
        raise UsageError(f"there is no plugin {name!r}; there are: {', '.join(pins) or 'none'}")
    return pins[name]


def _add(store: PluginStore, source: Source, *, yes: bool) -> int:
    with TemporaryDirectory(prefix="agent-cli-") as folder:
        fetched = fetch(source, Path(folder))
        plugin = read_plugin(fetched.folder, fetched.name)
        pin = Pin(source, fetched.commit, digest_of(fetched.folder))
        _print(described(plugin))
        if not _agreed(f"Use the plugin {plugin.name}, until it changes?", yes=yes):
            return 1
        store.keep(plugin.name, fetched.folder, pin)
    print(f"{plugin.name} is added{_at(pin)}; it counts from the next start")
    return 0


def _update(store: PluginStore, name: str, *, yes: bool) -> int:
    pin = store.pins()[name]
    with TemporaryDirectory(prefix="agent-cli-") as folder:
        fetched = fetch(pin.source, Path(folder))
        now = Pin(pin.source, fetched.commit, digest_of(fetched.folder))
        before = store.folder_of(name, pin)
        is_whole = before.is_dir() and digest_of(before) == pin.digest
        if is_whole and now.digest == pin.digest:
            print(f"{name} is up to date{_at(now)}")
            return 0
        plugin = read_plugin(fetched.folder, name)
        if plugin.name != name:
            raise UsageError(f"{name} calls itself {plugin.name} now: remove it, and add it anew")
        _print(_changes(contents_of(before) if is_whole else {}, contents_of(fetched.folder)))
        _print(described(plugin, whole=False))
        if not _agreed(f"Use this version of {name}?", yes=yes):
            return 1
        store.keep(name, fetched.folder, now)
    print(f"{name} is updated{_at(now)}; it counts from the next start")
    return 0


def _list(store: PluginStore) -> int:
    found, problems = store.load()
    pins = store.pins()
    for plugin in found:
        pin = pins[plugin.name]
        what = ", ".join(_counts(plugin)) or "nothing that is used here"
        source = pin.source.address + (f"@{pin.source.ref}" if pin.source.ref else "")
        print(reveal(f"{plugin.name}: {what}; from {source}{_at(pin)}"))
    if not pins:
        print("no plugins are added: agent-cli plugins add owner/repo")
    for problem in problems:
        print(f"agent-cli: {reveal(problem)}", file=sys.stderr)
    return 1 if problems else 0


def _counts(plugin: AddedPlugin) -> Iterator[str]:
    for kind in _ACTS:
        if names := [*_files(plugin, kind)]:
            yield counted(len(names), _WORDS[kind])
    if plugin.hooks:
        yield counted(len(plugin.hooks), "group") + " of hooks"
    if plugin.servers:
        yield counted(len(plugin.servers), "MCP server")
    if plugin.unused:
        yield f"not used here: {', '.join(plugin.unused)}"


def described(plugin: AddedPlugin, *, whole: bool = True) -> Iterator[str]:
    """Yield lines that say all that *plugin* does; with *whole* also the text of its scripts."""
    version = f" {plugin.version}" if plugin.version else ""
    about = f": {plugin.description}" if plugin.description else ""
    yield f"{plugin.name}{version}{about}"
    for kind in _ACTS:
        for file in _files(plugin, kind):
            yield f"  {_WORDS[kind]} {file.relative_to(plugin.root)}"
    written = [WrittenHooks(event, group, file) for event, group, file in plugin.hooks]
    for effect in hook_effects(written):
        yield f"  {effect}"
    for effect in server_effects(plugin.servers):
        yield f"  {effect}"
    for name in plugin.unused:
        yield f"  brings {name}, which nothing here uses"
    files = sorted(contents_of(plugin.root))
    yield f"  in all {counted(len(files), 'file')}: {', '.join(map(shlex.quote, files))}"
    for path in _scripts(plugin) if whole else ():
        yield f"  {path.relative_to(plugin.root)}, which a hook or a server runs:"
        yield from (f"    | {line}" for line in _text(path).splitlines())


def _files(plugin: AddedPlugin, kind: str) -> Iterator[Path]:
    pattern = "*/SKILL.md" if kind == "skills" else "**/*.md"
    for folder in plugin.folders[kind]:
        yield from sorted(path for path in folder.glob(pattern) if path.is_file())


def _scripts(plugin: AddedPlugin) -> Iterator[Path]:
    """Yield the plugin's own files that its hooks and servers name."""
    text = str([*plugin.hooks, plugin.servers])
    for folder, _, names in walk(plugin.root):
        for name in sorted(names):
            path = Path(folder, name)
            if str(path) in text and real_path(path).is_relative_to(plugin.root):
                yield path


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def _changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[str]:
    """Yield a unified diff of all files."""
    for name in sorted({*before, *after}):
        old, new = before.get(name, b""), after.get(name, b"")
        if old != new or (name in before) != (name in after):
            texts = [each.decode(errors="surrogateescape").splitlines() for each in (old, new)]
            labels = [name if name in side else "/dev/null" for side in (before, after)]
            yield from difflib.unified_diff(texts[0], texts[1], labels[0], labels[1], lineterm="")


def _agreed(question: str, *, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here: look at it, then give --yes")
    return confirmed(question)


def _at(pin: Pin) -> str:
    return f" at {pin.commit[:12]}" if pin.commit else ""


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(reveal(line))
    sys.stdout.flush()
