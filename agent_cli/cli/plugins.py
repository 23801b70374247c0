"""`agent-cli plugins`: add plugins in Claude Code's format, shown whole before they count."""

import difflib
import re
import shlex
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from getpass import getpass
from pathlib import Path
from typing import Final

from agent_cli.added_plugins import Pin, PluginStore, contents_of, digest_of
from agent_cli.added_plugins.options import PluginOption, values_of
from agent_cli.added_plugins.plugin import ROOT, AddedPlugin, read_plugin
from agent_cli.added_plugins.sources import Source, fetch, source_of
from agent_cli.app.arguments import Arguments
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.wording import counted
from agent_cli.prompt_files.skill_files import skill_paths
from agent_cli.settings import WrittenHooks
from agent_cli.system.paths import real_path
from agent_cli.system.redaction import MASK
from agent_cli.system.sanitize import reveal
from agent_cli.system.trees import remove_tree, walk
from agent_cli.terminal.abilities import confirmed
from agent_cli.trust.effects import agent_effects, hook_effects, server_effects

_USAGE: Final = (
    "write agent-cli plugins add SOURCE[@REF] [NAME], list, show NAME, set NAME [KEY],"
    " update [NAME] or remove NAME"
)
_NONE_ADDED: Final = "no plugins are added: agent-cli plugins add owner/repo"
_ACTS: Final = ("agents", "commands", "skills", "outputStyles")
_WORD: Final = re.compile(r"[^\s/\\'\"`$(){};:,=<>|&\[\]]+")
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
            pin = store.pin(name)
            plugin = read_plugin(store.folder_of(name, pin), name)
            _print(described(plugin))
            _print(_values(plugin, store.values(name, pin)))
            return 0
        case ["set", name, *keys]:
            pin = store.pin(name)
            plugin = read_plugin(store.folder_of(name, pin), name)
            _set(store, plugin, pin, _options(plugin, keys))
            return 0
        case ["update"]:
            if not (pins := store.pins()):
                print(_NONE_ADDED)
            return max((_update(store, name, yes=arguments.yes) for name in pins), default=0)
        case ["update", name]:
            store.pin(name)
            return _update(store, name, yes=arguments.yes)
        case ["remove", name]:
            store.remove(name)
            print(f"{name} is removed")
            return 0
        case _:
            raise UsageError(_USAGE)


def _add(store: PluginStore, source: Source, *, yes: bool) -> int:
    with _scratch() as folder:
        fetched = fetch(source, folder)
        plugin = read_plugin(fetched.folder, fetched.name)
        pin = Pin(source, fetched.commit, digest_of(fetched.folder))
        _print(described(plugin))
        if before := store.pins().get(plugin.name):
            print(_line(f"it takes the place of the plugin {plugin.name} from {_from(before)}"))
        if not _agreed(f"Use the plugin {plugin.name}, until it changes?", yes=yes):
            return 1
        store.keep(plugin.name, fetched.folder, pin)
        _ask_for_missing(store, plugin, pin, yes=yes)
    print(f"{plugin.name} is added{_at(pin)}; it counts from the next start")
    return 0


def _update(store: PluginStore, name: str, *, yes: bool) -> int:
    pin = store.pins()[name]
    with _scratch() as folder:
        fetched = fetch(pin.source, folder)
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
        _ask_for_missing(store, plugin, now, yes=yes)
    print(f"{name} is updated{_at(now)}; it counts from the next start")
    return 0


def _ask_for_missing(store: PluginStore, plugin: AddedPlugin, pin: Pin, *, yes: bool) -> None:
    """Ask for the values that *plugin* has none for; without a person, name the required ones."""
    known = store.values(plugin.name, pin)
    if not yes and sys.stdin.isatty():
        _set(store, plugin, pin, [each for each in plugin.options if each.key not in known])
    for key in values_of(plugin.options, store.values(plugin.name, pin))[1]:
        print(f"it is not used before it has a {key}: agent-cli plugins set {plugin.name} {key}")


def _options(plugin: AddedPlugin, keys: Sequence[str]) -> Sequence[PluginOption]:
    """Return the options *keys* of *plugin*, all without one.

    Raises:
        UsageError: It has no such option, or none at all.
    """
    options = {option.key: option for option in plugin.options}
    if not options:
        raise UsageError(f"{plugin.name} asks for no values, so there is nothing to set")
    for key in keys:
        if key not in options:
            there_are = ", ".join(options)
            raise UsageError(f"{plugin.name} does not ask for {key!r}; it asks for {there_are}")
    return [options[key] for key in keys] or plugin.options


def _set(
    store: PluginStore, plugin: AddedPlugin, pin: Pin, options: Sequence[PluginOption]
) -> None:
    """Ask for the values of *options*, and store each answer at once.

    Raises:
        UsageError: A line that no person typed is no value of that kind.
    """
    for option in options:
        values = store.values(plugin.name, pin)
        value = _asked(option, is_known=option.key in values)
        if value is not None:
            store.keep_values(plugin.name, pin, {**values, option.key: value})


def _asked(option: PluginOption, *, is_known: bool) -> str | None:
    """Return the value for *option*; None to keep its present value."""
    if not sys.stdin.isatty():
        return option.checked(sys.stdin.readline().strip())
    about = f" ({option.description})" if option.description else ""
    before = "as it is" if is_known else "" if option.is_secret else option.default
    question = _line(f"{option.title}{about}{f' [{before}]' if before else ''}: ")
    while True:
        try:
            text = getpass(question) if option.is_secret else _typed(question)
            return option.checked(text.strip()) if text.strip() else None
        except EOFError:
            return None
        except UsageError as error:
            print(f"agent-cli: {_line(str(error))}", file=sys.stderr)


def _typed(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()


def _values(plugin: AddedPlugin, values: Mapping[str, str]) -> Iterator[str]:
    for option in plugin.options:
        value = MASK if option.is_secret and option.key in values else values.get(option.key)
        default = f"its default, {option.default!r}" if option.default else "not set"
        yield f"  {option.key} is {default if value is None else value}"


def _list(store: PluginStore) -> int:
    found, problems = store.load()
    pins = store.pins()
    for plugin in found:
        pin = pins[plugin.name]
        what = ", ".join(_counts(plugin)) or "nothing that is used here"
        print(_line(f"{plugin.name}: {what}; from {_from(pin)}"))
    if not pins:
        print(_NONE_ADDED)
    for problem in problems:
        print(f"agent-cli: {_line(problem)}", file=sys.stderr)
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
            for effect in agent_effects(file) if kind == "agents" else ():
                yield f"    {effect}"
    written = [WrittenHooks(event, group, file) for event, group, file in plugin.hooks]
    for effect in (*hook_effects(written), *server_effects(plugin.servers)):
        # The folder that is shown before it is added is not the one that stays.
        yield f"  {effect.replace(str(plugin.root), f'${{{ROOT}}}')}"
    for option in plugin.options:
        needed = [word for word in ("required", "secret") if getattr(option, f"is_{word}")]
        about = f": {option.description}" if option.description else ""
        yield f"  asks for {option.key} ({', '.join((option.kind, *needed))}){about}"
    for name in plugin.unused:
        yield f"  brings {name}, which nothing here uses"
    acts = any(True for kind in _ACTS for _ in _files(plugin, kind))
    if not (acts or written or plugin.servers or plugin.unused):
        yield "  brings nothing that is used here: is it the folder of a plugin?"
    files = sorted(contents_of(plugin.root))
    yield f"  in all {counted(len(files), 'file')}: {', '.join(map(shlex.quote, files))}"
    for path in _scripts(plugin) if whole else ():
        yield f"  {path.relative_to(plugin.root)}, which a hook or a server runs:"
        yield from (f"    | {line}" for line in _text(path).splitlines())


def _files(plugin: AddedPlugin, kind: str) -> Iterator[Path]:
    for folder in plugin.folders[kind]:
        if kind == "skills":
            yield from skill_paths(folder)
        else:
            yield from sorted(path for path in folder.glob("**/*.md") if path.is_file())


def _scripts(plugin: AddedPlugin) -> Iterator[Path]:
    """Yield the plugin's own files whose names its hooks and servers hold, or such a file does.

    The name alone counts: a command may change the folder before.
    """
    waiting = [str([plugin.servers, *(group for _, group, _ in plugin.hooks)])]
    files = {Path(folder, name) for folder, _, names in walk(plugin.root) for name in names}
    files = {path for path in files if real_path(path).is_relative_to(plugin.root)}
    while waiting:
        words = {*_WORD.findall(waiting.pop())}
        found = sorted(
            path
            for path in files
            if {path.name, path.stem if path.suffix == ".py" else path.name} & words
        )
        files.difference_update(found)
        for path in found:
            yield path
            waiting.append(_text(path))


def _text(path: Path) -> str:
    data = path.read_bytes() if path.is_file() else b""
    if b"\0" in data:
        return f"(not text: {len(data):,} bytes)"
    return data.decode(errors="surrogateescape")


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


@contextmanager
def _scratch() -> Generator[Path]:
    """Yield a new folder; a repository in it may be too deep for `TemporaryDirectory`."""
    folder = Path(tempfile.mkdtemp(prefix="agent-cli-"))
    try:
        yield folder
    finally:
        remove_tree(folder)


def _from(pin: Pin) -> str:
    return f"{pin.source.address}{f'@{pin.source.ref}' if pin.source.ref else ''}{_at(pin)}"


def _at(pin: Pin) -> str:
    return f" at {pin.commit[:12]}" if pin.commit else ""


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(_line(line))
    sys.stdout.flush()


def _line(text: str) -> str:
    """Return *text* as one line: a file's name must not begin a line that looks like ours."""
    return reveal(text).replace("\n", "\\n")
