"""Paths: inside the workspace, outside, and outside although they look like inside."""

import gc
import os
import stat
import time
from pathlib import Path

import pytest

from agent_cli.contracts.errors import AgentCliError, ToolError
from agent_cli.sandbox.guarded_files import what_it_starts
from agent_cli_tools import Workspace
from agent_cli_tools.session_resources import CommandExports, SessionResources
from tests.tables import each_row


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "ws" / "src").mkdir(parents=True)
    (tmp_path / "ws-evil").mkdir()
    (tmp_path / "ws-evil" / "secret.txt").write_text("no")
    (tmp_path / "ws" / "src" / "a.py").write_text("a")
    return Workspace(tmp_path / "ws", shared=SessionResources(spill_dir=tmp_path / "out"))


@each_row(
    "given",
    ["src/a.py", "./src/a.py", "@src/a.py", "src/../src/a.py", "src//a.py", "{root}/src/a.py"],
)
def test_path_inside_the_workspace_is_resolved_in_any_notation(
    workspace: Workspace, given: str
) -> None:
    real = workspace.resolve(given.format(root=workspace.root))

    assert real == workspace.root / "src" / "a.py"
    assert workspace.shown(real) == "src/a.py"


@each_row(
    "given",
    [
        *("../ws-evil/secret.txt", "{root}-evil/secret.txt", "/etc/passwd", "..", "/", "~"),
        *("src/../../ws-evil/secret.txt", "//etc/passwd", "/proc/self/status", "@/etc/passwd"),
    ],
)
def test_path_outside_the_workspace_is_refused(workspace: Workspace, given: str) -> None:
    """A sibling whose name starts with the workspace's name is outside too."""
    with pytest.raises(ToolError, match="outside the workspace"):
        workspace.resolve(given.format(root=workspace.root))


@pytest.mark.parametrize("link", ["file", "folder", "parent"])
def test_symlink_out_of_the_workspace_is_refused(workspace: Workspace, link: str) -> None:
    outside = workspace.root.parent / "ws-evil"
    (workspace.root / "file").symlink_to(outside / "secret.txt")
    (workspace.root / "folder").symlink_to(outside)
    given = {"file": "file", "folder": "folder/secret.txt", "parent": "folder/new.txt"}[link]

    with pytest.raises(ToolError, match="outside the workspace"):
        workspace.resolve(given)


def test_symlink_inside_the_workspace_is_followed(workspace: Workspace) -> None:
    (workspace.root / "link").symlink_to("src/a.py")

    assert workspace.resolve("link") == workspace.root / "src" / "a.py"


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("Screenshot at 3.15.20\u202fPM.png", "Screenshot at 3.15.20 PM.png"),
        ("Snímek v\xa013.05.png", "Snímek v 13.05.png"),
        ("Capture d\u2019écran.png", "Capture d'écran.png"),
        ("Cafe\u0301/a.py", "Café/a.py"),
    ],
)
def test_path_that_only_looks_as_written_is_resolved(
    workspace: Workspace, name: str, written: str
) -> None:
    """macOS names screenshots so; "did you mean" named what the model had written."""
    path = workspace.root / name
    path.parent.mkdir(exist_ok=True)
    path.touch()

    assert workspace.resolve(written) == path
    assert workspace.touched_by(written) == (str(path),)


def test_path_that_looks_like_two_files_or_exists_is_taken_as_written(
    workspace: Workspace,
) -> None:
    """It could be the wrong one."""
    for name in ("a\u202fb.txt", "a\xa0b.txt", "c\u202fd.txt", "c d.txt"):
        (workspace.root / name).touch()

    for written in ("a b.txt", "c d.txt"):
        assert workspace.resolve(written) == workspace.root / written


def test_longest_path_with_blanks_is_resolved(workspace: Workspace) -> None:
    """Each of its folders, none of which exists, was looked for within the call for the next."""
    written = "a b/" * 1_000 + "c"

    assert workspace.resolve(written) == workspace.root / written


def test_file_that_only_looks_as_written_is_a_secret_too(workspace: Workspace) -> None:
    """S1-24: the name on the disk decides."""
    (workspace.root / "a b").symlink_to(".env")
    (workspace.root / ".env").touch()
    (workspace.root / "a b").rename(workspace.root / "a\xa0b")

    with pytest.raises(ToolError, match="may hold secrets"):
        workspace.resolve("a b")


def test_secret_is_refused_by_its_name_or_that_of_a_symlink(workspace: Workspace) -> None:
    """S1-24: tools never read `.env`."""
    (workspace.root / ".env").write_text("KEY=1")
    (workspace.root / "innocent").symlink_to(".env")
    (workspace.root / "id_rsa").symlink_to("src/a.py")

    for given in (".env", "innocent", "id_rsa", ".env.local"):
        with pytest.raises(ToolError, match="may hold secrets"):
            workspace.resolve(given)
    assert workspace.resolve(".env.example")


@each_row("character", ["\0", "\n", "\x1b", "\x7f", "\u202e", "\u2066", "\ud800"])
def test_path_with_a_deceptive_character_is_refused(workspace: Workspace, character: str) -> None:
    """The path the user approves must be the one opened."""
    with pytest.raises(ToolError, match=r"U\+"):
        workspace.resolve(f"src/{character}a.py")


def test_path_refused_by_the_system_is_a_tool_error(workspace: Workspace) -> None:
    (workspace.root / "loop").symlink_to("loop")

    for given in ("loop", "x" * 300):
        with pytest.raises(ToolError, match="could not be used"):
            workspace.resolve(given)


def test_an_empty_path_is_refused(workspace: Workspace) -> None:
    for given in ("", "@"):
        with pytest.raises(ToolError, match="empty"):
            workspace.resolve(given)


def test_name_that_starts_with_an_at_sign_is_resolved(workspace: Workspace) -> None:
    (workspace.root / "@types").mkdir()

    assert workspace.resolve("@types") == workspace.root / "@types"


def test_an_added_directory_belongs_to_the_workspace(tmp_path: Path) -> None:
    """--add-dir; paths in it are shown in full."""
    for name in ("ws", "more"):
        (tmp_path / name).mkdir()
    workspace = Workspace(tmp_path / "ws", shared=SessionResources(extra_dirs=[tmp_path / "more"]))

    path = workspace.resolve(str(tmp_path / "more" / "a.txt"))

    assert workspace.shown(path) == str(tmp_path / "more" / "a.txt")


def test_directories_may_be_text(tmp_path: Path) -> None:
    """As the workspace of a session may be."""
    for name in ("ws", "more"):
        (tmp_path / name).mkdir()

    workspace = Workspace(str(tmp_path / "ws"))
    workspace.open_dir(str(tmp_path / "more"))

    assert workspace.dirs == (str(tmp_path / "ws"), str(tmp_path / "more"))
    with pytest.raises(AgentCliError, match="root of a workspace must be Path or str, not bytes"):
        Workspace(b"ws")  # type: ignore[arg-type]  # as an author without a type checker


def test_tilde_expands_to_the_home_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ws").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))

    assert Workspace(Path("~/ws")).resolve("~/ws/a") == tmp_path / "ws" / "a"


def test_file_name_that_starts_with_a_tilde_is_not_expanded(workspace: Workspace) -> None:
    (workspace.root / "~nobodys-name").touch()

    assert workspace.resolve("~nobodys-name") == workspace.root / "~nobodys-name"


def test_error_for_a_missing_file_suggests_similar_names(workspace: Workspace) -> None:
    error = workspace.missing(workspace.root / "src" / "b.py")

    assert str(error) == "src/b.py does not exist. Did you mean src/a.py?"
    assert "glob" in str(workspace.missing(workspace.root / "nowhere" / "b.py"))
    (workspace.root / "readme.md").touch()
    missing = str(workspace.missing(workspace.root / "README.md"))
    assert missing == "README.md does not exist. Did you mean readme.md?"


def test_only_content_read_in_full_counts_as_known(workspace: Workspace) -> None:
    path = workspace.root / "src" / "a.py"

    assert not workspace.seen.once_whole(path)
    workspace.seen.note_all(path, b"a")

    assert workspace.seen.once_whole(path)
    assert workspace.seen.knows(path, b"a")
    assert not workspace.seen.knows(path, b"b")


def test_spill_files_are_numbered_and_private(workspace: Workspace) -> None:
    """They may hold any command output, and other users may share the machine."""
    old_umask = os.umask(0)
    try:
        opened = [workspace.shared.open_spill() for _ in range(2)]
        (workspace.root.parent / "out" / "notes.log").touch()
    finally:
        os.umask(old_umask)
    for _, file in opened:
        file.close()

    paths = [path for path, _ in opened]

    assert [path.name for path in paths] == ["001.log", "002.log"]
    with pytest.raises(ToolError, match="outside"):
        workspace.resolve(str(paths[0]), to_write=True)
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    assert stat.S_IMODE(paths[0].parent.stat().st_mode) == 0o700
    assert workspace.resolve(str(paths[0])) == paths[0]


def test_temporary_spill_directory_is_removed_with_the_workspace(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    path, file = workspace.shared.open_spill()
    file.close()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    del workspace
    gc.collect()

    assert not path.parent.exists()


class Running:
    """A resource that a call left running."""

    def __init__(self) -> None:
        self.ended = False
        self.closed = 0

    def has_ended(self) -> bool:
        return self.ended

    def close(self) -> None:
        self.closed += 1


def test_resources_left_running_are_closed_when_ended_or_with_the_workspace(
    workspace: Workspace,
) -> None:
    """A session may start hundreds of them."""
    first, second, third = Running(), Running(), Running()
    workspace.shared.keep(first)
    workspace.shared.keep(second)
    first.ended = True

    workspace.shared.keep(third)
    assert (first.closed, second.closed, third.closed) == (1, 0, 0)
    workspace.close()

    assert (first.closed, second.closed, third.closed) == (1, 1, 1)


@pytest.mark.parametrize(
    "given",
    [
        *(".git/config", ".git/hooks/pre-commit", ".GIT/config", "src/.git/config"),
    ],
)
def test_git_folder_cannot_be_written(workspace: Workspace, given: str) -> None:
    """Threats 10 and 11: the next git or editor runs files the agent writes there."""
    with pytest.raises(ToolError, match="do not change it"):
        workspace.resolve(given, to_write=True)

    assert workspace.resolve(given) == workspace.root / given


@pytest.mark.parametrize(
    "given", [".mcp.json", "appsettings.json", ".vscode/tasks.json", ".husky/pre-commit"]
)
def test_writing_files_that_configure_programs_is_left_to_the_policy(
    workspace: Workspace, given: str
) -> None:
    """A user may want such a file: the policy asks, and says what the file can do."""
    assert workspace.resolve(given, to_write=True) == workspace.root / given


@pytest.mark.parametrize("depth", [2_100, 60_000])
def test_path_that_is_too_long_is_refused_at_once(tmp_path: Path, depth: int) -> None:
    """A model that repeats itself wrote one; each of its folders was looked up, for a minute."""
    workspace = Workspace(tmp_path)
    before = time.process_time()

    said, _ = workspace.obstacle("a/" * depth, to_write=True)

    assert said == f"The path is too long, with {2 * depth:,} characters. Check it."
    assert time.process_time() - before < 1


def test_path_outside_can_be_opened_unless_secret_or_a_start_file(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy opens paths that the user allowed; they still count as outside."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    notes, key, start = home / "notes.txt", home / ".ssh/id_rsa", home / ".bashrc"
    for path in (notes, key, start):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")

    def outside(path: Path, *, to_write: bool = False) -> str:
        return workspace.obstacle(str(path), to_write=to_write)[1]

    def refusal(path: Path) -> str:
        return workspace.obstacle(str(path), to_write=False)[0]

    assert outside(notes, to_write=True) == str(notes)
    assert outside(start) == str(start)
    assert outside(start, to_write=True) == ""
    assert outside(key) == ""
    assert workspace.obstacle("src/a.py", to_write=True) == ("", "")
    assert "may hold secrets" in refusal(key)
    assert "outside the workspace" in refusal(notes)

    workspace.open_path(str(notes))

    assert workspace.resolve(str(notes)) == notes
    assert outside(notes) == str(notes)
    assert "outside the workspace" in refusal(home / "other")


def test_directory_can_be_added_to_an_open_workspace(workspace: Workspace, tmp_path: Path) -> None:
    added = tmp_path / "added"
    added.mkdir()

    workspace.open_dir(added)

    assert workspace.resolve(str(added / "x"), to_write=True) == added / "x"
    assert workspace.obstacle(str(added / "x"), to_write=True) == ("", "")


def test_hard_link_to_a_protected_file_is_protected_too(workspace: Workspace) -> None:
    """Threat 2: so are equal names on a file system that folds case."""
    (workspace.root / ".mcp.json").write_text("{}")
    (workspace.root / "innocent").hardlink_to(workspace.root / ".mcp.json")

    what = what_it_starts(workspace.root / "innocent", workspace.root)

    assert what == (
        "is another name of .mcp.json, which names MCP servers:"
        " programs that agent-cli and other agents start"
    )
    assert what_it_starts(workspace.root / "src/a.py", workspace.root) is None


def test_hard_link_to_a_secret_is_refused(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 2: a hard link has no target by which a path could be judged."""
    home = workspace.root.parent / "home"
    monkeypatch.setenv("HOME", str(home))
    for place, link in ((home / ".ssh" / "id_x", "notes"), (workspace.root / ".env", "config")):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("KEY")
        (workspace.root / link).hardlink_to(place)

        with pytest.raises(ToolError, match="may hold secrets"):
            workspace.resolve(link)
    (workspace.root / "other").hardlink_to(workspace.root / "src" / "a.py")

    assert workspace.resolve("other")


def test_file_that_a_secret_of_the_home_directory_leads_to_is_refused(
    workspace: Workspace,
) -> None:
    """Threats 2 and 24: who keeps settings in a repository has `~/.netrc` as a link into it."""
    for name in ("netrc", "ssh/key", "src/other"):
        (workspace.root / name).parent.mkdir(exist_ok=True)
        (workspace.root / name).write_text("KEY")
    (Path.home() / ".netrc").symlink_to(workspace.root / "netrc")
    (Path.home() / ".ssh").symlink_to(workspace.root / "ssh")

    for name in ("netrc", "ssh/key"):
        with pytest.raises(ToolError, match="may hold secrets"):
            workspace.resolve(name)
    assert workspace.resolve("src/other")


def test_files_similar_to_protected_ones_can_be_written(workspace: Workspace) -> None:
    for given in (".github/workflows/ci.yml", "docs/appsettings.toml", ".gitignore", "src/a.py"):
        assert workspace.resolve(given, to_write=True) == workspace.root / given


def test_own_settings_and_start_files_cannot_be_written_in_a_home_workspace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The program may be started in a home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    own = tmp_path / ".config" / "agent-cli"
    workspace = Workspace(tmp_path, shared=SessionResources(own_dirs=[own]))

    for given in (".bashrc", ".config/agent-cli/permissions.toml", ".config/fish/config.fish"):
        with pytest.raises(ToolError, match="do not change it"):
            workspace.resolve(given, to_write=True)


def test_variables_of_a_hook_in_the_sandbox_are_for_commands_in_the_sandbox_only() -> None:
    """The hook may have run what the model wrote; a command outside has the rights of the user."""
    exports = CommandExports({"A": "1"}, {"B": "2"})

    assert exports.words(is_confined=True) == ["A=1", "B=2"]
    assert exports.words(is_confined=False) == ["A=1"]


def test_agents_at_one_root_share_what_was_opened_and_those_at_another_do_not(
    tmp_path: Path,
) -> None:
    """In a worktree the same path is another file."""
    root, elsewhere, outside = tmp_path / "root", tmp_path / "worktree", tmp_path / "out"
    for folder in (root, elsewhere, outside):
        folder.mkdir()
    workspace = Workspace(root)
    beside, isolated = workspace.for_another_agent(), workspace.for_another_agent(elsewhere)

    workspace.open_path(str(outside / "a.txt"))

    assert beside.resolve(str(outside / "a.txt")) == outside / "a.txt"
    with pytest.raises(ToolError, match="is outside the workspace"):
        isolated.resolve(str(outside / "a.txt"))
    assert beside.open_files is workspace.open_files is not isolated.open_files
    assert beside.seen is not workspace.seen
    assert beside.shared is isolated.shared is workspace.shared
