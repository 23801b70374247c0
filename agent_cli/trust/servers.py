"""The workspace's files that the MCP servers of its settings and agents run.

A server runs outside the sandbox, so trust covers such a file by its content, as a hook's script.
What the file imports in turn is not known.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from agent_cli.contracts.errors import SettingsError
from agent_cli.prompt_files.written_servers import written_servers
from agent_cli.settings.hook_files import scripts_of
from agent_cli.settings.layers import Layers
from agent_cli.settings.sources import SETTINGS_FILES, WrittenHooks, read_file
from agent_cli.settings.toml_json import file_entries
from agent_cli.system.json_text import load_commented
from agent_cli.system.shapes import is_array, is_object


def server_files(files: Sequence[Path], workspace: Path) -> tuple[Path, ...]:
    """Return the files that servers of the acting *files* name and that a stranger may write."""
    # The search for a hook's scripts serves: both name files in a command and its words.
    commands = [_as_group(entry) for path in files for entry in _entries(path, workspace)]
    return scripts_of(commands, workspace)


def _entries(path: Path, workspace: Path) -> Iterator[Mapping[str, object]]:
    """Yield the servers of a file, as written; an unreadable file is reported by its reader."""
    try:
        if path == workspace / ".mcp.json":
            document = load_commented(read_file(path))
            servers = document.get("mcpServers") if is_object(document) else None
            yield from _tables(servers)
        elif path.parent == workspace and path.name in SETTINGS_FILES:
            layers = Layers()
            layers.take(file_entries(path, from_project=True))
            for server in layers.settings().mcp.servers:
                yield {**server._asdict(), "args": [*server.args]}
        elif path.suffix == ".md":
            written = written_servers(path.read_text(encoding="utf-8", errors="replace"))
            yield from _tables(written.entries if written else None)
    except (SettingsError, OSError, ValueError, RecursionError):
        return


def _tables(servers: object) -> Iterable[Mapping[str, object]]:
    return [each for each in servers.values() if is_object(each)] if is_object(servers) else ()


def _as_group(entry: Mapping[str, object]) -> WrittenHooks:
    command, args = entry.get("command"), entry.get("args")
    words = [*map(str, args)] if is_array(args) else []
    # A relative file is looked for in the working directory as well.
    folder = entry.get("cwd")
    helpers = [entry[name] for name in ("headersHelper", "headers_helper") if name in entry]
    hooks: list[object] = [{"command": each} for each in helpers]
    if isinstance(command, str) and command:
        hooks.append({"command": command, "args": [*words, folder] if folder else words})
    return WrittenHooks("McpServer", {"hooks": hooks}, "MCP server")
