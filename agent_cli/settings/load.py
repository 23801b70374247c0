"""Read all layers of settings into one frozen `Settings`; every value has an origin."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.written_hooks import guards_on
from agent_cli.settings import (
    CLAUDE_FILES,
    RULE_KINDS,
    SETTINGS_FILES,
    Entry,
    Override,
    WrittenHooks,
    WrittenRule,
    environment_entries,
    model_entries,
    override_entries,
)
from agent_cli.settings.environment import Environment
from agent_cli.settings.layers import Layers, only_guards
from agent_cli.settings.schema import Settings
from agent_cli.system import paths
from agent_cli.system.repositories import project_folders


class Loaded(NamedTuple):
    """The effective settings.

    Attributes:
        origins: The origin of every value that is not the default, by dotted key; a model alias and
            an MCP server have keys of their own (`models.high`, `mcp.servers.github`).
        notices: Sentences for the user about entries left out, in the order of the layers.
        rules: The permission rules of `permissions.toml`, of all layers and of Claude Code's files.
        hooks: The lifecycle hooks of all layers, then those of Claude Code's files.
    """

    settings: Settings
    origins: Mapping[str, str]
    notices: tuple[str, ...]
    rules: tuple[WrittenRule, ...] = ()
    hooks: tuple[WrittenHooks, ...] = ()


def load_settings(
    environment: Environment,
    *,
    workspace: Path,
    trusted: bool,
    guarded: bool = False,
    extra_file: Path | None = None,
    overrides: Sequence[Override] = (),
) -> Loaded:
    """Read imported settings, the user's files, the project's, *extra_file*, variables, options.

    The project's files count if *trusted*; if *guarded*, their guards alone.

    Raises:
        SettingsError: A file cannot be read, or a value is not allowed.
    """
    layers = Layers()
    layers.take(model_entries(environment, environment.project_names))
    for folder in paths.imported_dirs():
        layers.take(_files(folder, from_project=False))
    layers.take(_files(paths.config_dir(), from_project=False))
    if trusted:
        layers.take(_files(workspace, from_project=True))
    elif guarded:
        layers.take(only_guards(_files(workspace, from_project=True)))
    if extra_file:
        layers.take(_file(extra_file, from_project=False))
    layers.take(environment_entries(environment, environment.project_names))
    layers.take(override_entries(overrides))
    settings = layers.settings()
    above = _guards_above(workspace, settings) if trusted else ()
    notices = (*environment.notices, *layers.notices, *above)
    rules, hooks = _of_claude(settings, workspace, trusted=trusted, guarded=guarded)
    return Loaded(
        settings,
        layers.origins,
        notices,
        (*_user_rules(workspace), *_added_rules(layers), *rules),
        (*_added_hooks(layers), *hooks),
    )


def _user_rules(workspace: Path) -> tuple[WrittenRule, ...]:
    path = paths.permissions_file()
    if not _has_own(path):
        return ()
    from agent_cli.settings.files import read_rules  # as in `_file`

    return read_rules(path, workspace)


def _added_rules(layers: Layers) -> Iterator[WrittenRule]:
    for kind in RULE_KINDS:
        for rule in layers.added.get(f"permissions.{kind}", ()):
            yield WrittenRule(kind, str(rule.value), rule.origin)


def _added_hooks(layers: Layers) -> Iterator[WrittenHooks]:
    for key, groups in layers.added.items():
        section, _, name = key.partition(".")
        if section == "hooks":
            event = "".join(map(str.capitalize, name.split("_")))
            for each in groups:
                yield WrittenHooks(event, each.value, each.origin, each.from_project)


def _of_claude(
    settings: Settings, workspace: Path, *, trusted: bool, guarded: bool
) -> tuple[list[WrittenRule], list[WrittenHooks]]:
    """Return the rules and the hooks in Claude Code's files, as far as the settings read them."""
    rules: list[WrittenRule] = []
    hooks: list[WrittenHooks] = []
    reads_rules, reads_hooks = settings.permissions.claude_files, settings.hooks.claude_files
    files = [paths.claude_dir() / "settings.json"]
    if trusted or guarded:
        files += [workspace / name for name in CLAUDE_FILES]
    for path in dict.fromkeys(files if reads_rules or reads_hooks else ()):
        if paths.is_file(path):
            from agent_cli.settings.files import ClaudeFile  # as in `_file`

            file, of_project = ClaudeFile.read(path), path != files[0]
            if reads_rules:
                rules += file.rules(from_project=of_project)
            for group in file.hooks(from_project=of_project) if reads_hooks else ():
                if trusted or not of_project or guards_on(group.event):
                    hooks.append(group)
    return rules, hooks


def _guards_above(workspace: Path, settings: Settings) -> Iterator[str]:
    """Yield a notice about each file of the folders above whose guards do not hold here."""
    reads_claude = settings.permissions.claude_files or settings.hooks.claude_files
    names = (*SETTINGS_FILES, *(CLAUDE_FILES if reads_claude else ()))
    for folder in project_folders(workspace)[1:]:
        found = [name for name in names if _has_guards(folder, name)]
        if found:
            named = " and ".join(os.path.relpath(folder / name, workspace) for name in found)
            yield f"{named} not read: these hooks and rules hold only if you start in {folder}"


def _has_guards(folder: Path, name: str) -> bool:
    path = folder / name
    if not paths.is_file(path):
        return False
    from agent_cli.settings.files import ClaudeFile, file_entries  # as in `_file`

    try:
        if name not in CLAUDE_FILES:
            return any(True for _ in only_guards(file_entries(path, from_project=True)))
        file = ClaudeFile.read(path)
    except SettingsError:
        return True
    guards = (True for each in file.hooks(from_project=True) if guards_on(each.event))
    return any(guards) or any(True for _ in file.rules(from_project=True))


def _files(folder: Path, *, from_project: bool) -> Iterator[Entry]:
    is_there = paths.is_file if from_project else _has_own
    for name in SETTINGS_FILES:
        if is_there(folder / name):
            yield from _file(folder / name, from_project=from_project)


def _has_own(path: Path) -> bool:
    """Return whether the user has the file *path*.

    Raises:
        SettingsError: A folder, a link to nothing or the like stands there. It is not passed over:
            rules that deny would not hold, and nobody would know.
    """
    if paths.is_file(path):
        return True
    if os.path.lexists(path):
        raise SettingsError(f"{path} is not a file; replace or remove it")
    return False


def _file(path: Path, *, from_project: bool) -> Iterator[Entry]:
    from agent_cli.settings.files import file_entries  # most starts have no file

    return file_entries(path, from_project=from_project)
