"""The sandbox's rules for one command, computed from the workspace on disk."""

import os
import resource
import shutil
import socket
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from agent_cli.sandbox import PathRules, SandboxPolicy, tripwire
from agent_cli.sandbox.backends import seatbelt_profile
from agent_cli.sandbox.confinement import Rules, SandboxFiles
from agent_cli.sandbox.denials import denial, sentence, stopped_git
from agent_cli.sandbox.git_folders import GitFolders, git_folders
from agent_cli.sandbox.guarded_files import PROTECTED_NAMES, what_it_starts, why_protected
from agent_cli.sandbox.hidden_paths import host_sockets, mounted_files, socket_covers
from agent_cli.sandbox.path_sets import is_inside, outermost
from agent_cli.sandbox.seccomp import filter_program
from agent_cli.sandbox.secret_files import is_secret
from agent_cli.sandbox.secret_index import PathMarks, SecretIndex
from agent_cli.sandbox.tripwire import Tripwire
from tests.deep_trees import deep_tree, little_recursion
from tests.sandbox.world import keep_aside_on_another_disk
from tests.tables import each_row
from tests.waiting import LIMIT_S, unstalled_s


def rules(root: Path, home: Path, *own: Path) -> Rules:
    return SandboxPolicy((root,), home=home, own=own, is_secret=is_secret).rules()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "home" / "ws"
    made.mkdir(parents=True)
    return made


def test_leaving_does_not_wait_for_a_search(root: Path) -> None:
    """In a home with many folders the first search takes a minute; the answer is long there."""
    (root / "file").touch()
    is_searching, go_on = Event(), Event()

    def slowly(_path: str) -> bool:
        is_searching.set()
        return not go_on.wait(LIMIT_S)

    policy = SandboxPolicy((root,), home=root.parent, own=(), is_secret=slowly)
    search = Thread(target=policy.rules)
    search.start()
    assert is_searching.wait(LIMIT_S)

    leaving = Thread(target=policy.close)
    leaving.start()
    leaving.join(LIMIT_S / 10)

    is_waiting = leaving.is_alive()
    go_on.set()
    search.join()
    leaving.join()
    assert not is_waiting


def test_only_the_workspace_is_writable(root: Path) -> None:
    found = rules(root, root.parent)

    assert found.writable == (root,)
    assert found.missing == tuple(root / name for name in PROTECTED_NAMES)
    assert found.read_only == ()


def test_protected_folders_and_link_targets_are_read_only(root: Path) -> None:
    (root / ".vscode").mkdir()
    (root / "shared").mkdir()
    (root / ".claude").symlink_to("shared")

    found = rules(root, root.parent)

    assert set(found.read_only) == {root / ".vscode", root / "shared"}
    assert found.watched == (root / ".claude",)


def test_target_of_a_link_named_like_a_secret_is_hidden(root: Path) -> None:
    """Threat 4: a link to a secret is the secret."""
    keys = root / "real.txt"
    keys.write_text("")
    (root / ".env").symlink_to("real.txt")
    (root / "node_modules" / "x").mkdir(parents=True)
    (root / "node_modules" / "x" / "test.pem").write_text("")

    assert keys in rules(root, root.parent).hidden
    assert root / "node_modules" / "x" / "test.pem" not in rules(root, root.parent).hidden


def test_dotfiles_are_read_only_if_the_workspace_is_a_home_directory(root: Path) -> None:
    """No list of start files is complete, so every dotfile is protected."""
    for name in (".bashrc", ".any-tool-rc"):
        (root / name).write_text("")
    for name in (".ssh", ".any-tool", "work"):
        (root / name).mkdir()

    found = rules(root, root)

    names = {path.name for path in found.read_only}
    assert names == {".bashrc", ".any-tool-rc", ".any-tool"}
    assert root / ".zshrc" in found.missing
    assert root / ".ssh" in found.hidden


def test_folder_that_contains_the_workspace_is_never_hidden(root: Path) -> None:
    inside = root / ".config" / "agent-cli" / "project"
    inside.mkdir(parents=True)

    assert root / ".config" / "agent-cli" not in rules(inside, root, inside.parent).hidden


def test_skills_whose_folder_is_a_link_are_shown_beside_what_is_hidden(root: Path) -> None:
    """As into a repository of one's settings: no command could follow the link."""
    own, kept = root.parent / "own", root.parent / "dotfiles"
    for folder in (own, kept):
        folder.mkdir()
    (own / "session").touch()
    (own / "skills").symlink_to(kept)

    policy = SandboxPolicy(
        (root,), home=root.parent, own=(own,), shown=(own / "skills",), is_secret=is_secret
    )

    hidden = [path for path in policy.rules().unreadable if path.is_relative_to(root.parent)]
    assert hidden == [own / "session"]


def test_skills_do_not_hide_a_workspace_that_is_the_programs_own_folder(root: Path) -> None:
    """Commands could read none of its files, git neither; without skills they could."""
    for name in ("skills", "agents"):
        (root / name).mkdir()
    policy = SandboxPolicy(
        (root,), home=root.parent, own=(root,), shown=(root / "skills",), is_secret=is_secret
    )

    found = policy.rules()

    assert [path for path in found.unreadable if path.is_relative_to(root)] == []
    assert root in found.read_only


def test_settings_of_this_program_in_a_workspace_are_guarded_and_hidden(
    root: Path,
) -> None:
    """In ~/.config, with Landlock: a command added a rule that allows all others."""
    own, state = root / "agent-cli", root / "state"
    for folder in (own, state):
        folder.mkdir()

    policy = SandboxPolicy(
        (root,), home=root.parent, own=(own, state), settings=(own,), is_secret=is_secret
    )

    assert {own, state} <= set(policy.rules().hidden)
    assert own in policy.rules().read_only
    assert state not in policy.rules().read_only, "this program writes to it meanwhile"


def test_rule_about_skills_hides_them(root: Path) -> None:
    """They are shown beside what is hidden, unless the user forbids it."""
    own = root.parent / "own"
    (own / "skills").mkdir(parents=True)

    for denied in (own, own / "skills"):
        policy = SandboxPolicy(
            (root,),
            home=root.parent,
            own=(own,),
            shown=(own / "skills",),
            is_secret=is_secret,
            path_rules=PathRules(elsewhere=[(denied, 0)]),
        )

        assert own in policy.rules().unreadable


def test_secret_index_finds_new_secrets_and_drops_deleted_ones(root: Path) -> None:
    index = SecretIndex(root, PathMarks(is_secret))
    assert index.contents().secrets == []
    (root / "a").mkdir()
    (root / "a" / ".env").write_text("")
    assert index.contents().secrets == [root / "a" / ".env"]

    (root / "a" / ".env").unlink()

    assert index.contents().secrets == []


def test_secret_created_in_the_same_clock_tick_as_a_search_is_found(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 4: two changes within one tick of a file system's clock have the same time."""
    index = SecretIndex(root, PathMarks(is_secret))
    changed_ns = root.stat().st_mtime_ns
    monkeypatch.setattr("time.time_ns", lambda: changed_ns + 1_000_000)
    assert index.contents().secrets == []
    (root / ".env").touch()
    os.utime(root, ns=(changed_ns, changed_ns))
    monkeypatch.setattr("time.time_ns", lambda: changed_ns + 3_600_000_000_000)

    assert index.contents().secrets == [root / ".env"]
    assert index.contents().is_changed is False


def test_git_folder_of_a_parent_directory_is_writable_but_its_hooks_are_not(root: Path) -> None:
    """A user may start in a subdirectory of a repository, and commit."""
    folder = root / ".git"
    (folder / "modules" / "m").mkdir(parents=True)
    for name in ("HEAD", "config", "modules/m/config", "modules/m/HEAD"):
        (folder / name).write_text("")
    (root / "part").mkdir()

    found = git_folders(root / "part")

    assert found.writable == (folder,)
    module = folder / "modules" / "m"
    assert set(found.protected) == {
        *(folder / "hooks", folder / "config", module / "hooks", module / "config")
    }


def test_hooks_and_config_of_nested_repositories_are_read_only(root: Path, tmp_path: Path) -> None:
    """Threat 11: a user may work on several at once, and run git in them later."""
    for name in ("one", "deep/two", "node_modules/three"):
        folder = root / name / ".git"
        (folder / "hooks").mkdir(parents=True)
        (folder / "config").write_text("")
        (folder / "HEAD").write_text("")
    (root / "empty" / ".git").mkdir(parents=True)

    found = rules(root, tmp_path / "nobody")

    protected = {str(path.relative_to(root)) for path in found.read_only}
    assert protected == {
        *("one/.git/hooks", "one/.git/config", "deep/two/.git/hooks", "deep/two/.git/config"),
        "empty/.git",
    }
    assert {root / "one" / ".git", root / "deep" / "two" / ".git"} <= set(found.writable)


def test_files_that_redirect_git_are_protected(root: Path, tmp_path: Path) -> None:
    """Threat 11: git in a submodule, or in a worktree outside, would follow them."""
    folder = root / ".git"
    module, tree = folder / "modules" / "lib", folder / "worktrees" / "other"
    for place in (folder, module, tree):
        place.mkdir(parents=True)
        (place / "HEAD").write_text("")
    (tree / "commondir").write_text("../..\n")
    (module / "config.worktree").write_text("")
    (root / "lib").mkdir()
    (root / "lib" / ".git").write_text("gitdir: ../.git/modules/lib\n")

    found = rules(root, tmp_path / "nobody")

    assert {root / "lib" / ".git", tree / "commondir", module / "config.worktree"} <= set(
        found.read_only
    )
    assert {folder / "commondir", folder / "config.worktree"} <= set(found.missing)
    assert {module / "commondir", tree / "config.worktree"} <= set(found.missing)


def test_submodules_and_worktrees_beyond_those_mounted_are_watched(root: Path) -> None:
    """Threat 11: a command could make some of them, to free the configuration of others."""
    folder = root / ".git"
    for number in range(55):
        for place in (folder / "modules" / f"{number:02}", folder / "worktrees" / f"{number:02}"):
            place.mkdir(parents=True)
            (place / "HEAD").touch()
    (folder / "HEAD").touch()
    last = folder / "modules" / "54"
    (last / "config").write_text("old")

    found = rules(root, root.parent / "nobody")

    assert folder / "modules" / "49" / "config" in found.missing
    assert {last / "config", last / "hooks", last / "commondir"} <= set(found.watched)
    assert folder / "worktrees" / "54" / "commondir" in found.watched


def test_nothing_is_writable_in_a_repository_of_too_many_submodules(root: Path) -> None:
    """Threat 11: a command could make them, and not all can be checked before every command."""
    for number in range(501):
        (root / ".git" / "modules" / str(number)).mkdir(parents=True)
    (root / ".git" / "HEAD").touch()

    found = rules(root, root.parent / "nobody")

    assert (found.writable, root / ".git" in found.read_only) == ((root,), True)


def test_links_among_submodules_that_form_circles_are_followed_once(root: Path) -> None:
    """A command could make them; the search for submodules never ended."""
    modules = root / ".git" / "modules"
    modules.mkdir(parents=True)
    (root / ".git" / "HEAD").touch()
    for name in ("a", "b", "c"):
        (modules / name).symlink_to(".")

    assert git_folders(root).protected == (root / ".git" / "hooks", root / ".git" / "config")


def test_repository_around_a_name_that_is_too_long_is_found(tmp_path: Path) -> None:
    """The kernel refuses the name; a call of `write` with it was skipped as one that asks."""
    (tmp_path / ".git" / "hooks").mkdir(parents=True)

    assert git_folders(tmp_path / ("b" * 300)) == git_folders(tmp_path)


def test_secret_that_a_running_command_moved_is_hidden_from_the_next(root: Path) -> None:
    """Its new path need not name a secret."""
    secret = root / "conf" / ".docker" / "config.json"
    secret.parent.mkdir(parents=True)
    secret.write_text("{}")
    policy = SandboxPolicy([root], home=root.parent / "nobody", own=(), is_secret=is_secret)
    assert secret in policy.rules().hidden

    secret.parent.rename(root / "conf" / "moved")

    assert root / "conf" / "moved" / "config.json" in policy.rules().hidden


def test_settings_beyond_those_mounted_are_watched(root: Path) -> None:
    for number in range(61):
        (root / f"{number:02}" / ".vscode").mkdir(parents=True)

    found = rules(root, root.parent / "nobody")

    mounted = {path for path in found.read_only if path.name == ".vscode"}
    watched = {path for path in found.watched if path.name == ".vscode"}
    assert (len(mounted), len(watched), len(mounted | watched)) == (60, 1, 61)


def test_submodules_git_folder_is_writable_only_if_its_config_points_back(root: Path) -> None:
    folder = root / ".git" / "modules" / "m"
    folder.mkdir(parents=True)
    (folder / "HEAD").write_text("")
    (folder / "config").write_text("[core]\n\tworktree = ../../../m\n")
    for name in ("m", "other"):
        (root / name).mkdir()
        (root / name / ".git").write_text("gitdir: ../.git/modules/m\n")

    assert git_folders(root / "m").writable == (folder,)
    assert git_folders(root / "other") == GitFolders()


def test_worktree_whose_git_folders_do_not_match_gets_no_write_access(root: Path) -> None:
    """A repository may contain a folder that claims another one as its common folder."""
    other = root.parent / "other" / ".git"
    fake = root / "fake"
    for folder in (other, fake):
        folder.mkdir(parents=True)
        (folder / "HEAD").write_text("")
    (root / ".git").write_text("gitdir: fake\n")
    (fake / "gitdir").write_text(f"{root}/.git\n")
    (fake / "commondir").write_text(f"{other}\n")

    assert git_folders(root) == GitFolders()


def test_linked_git_folder_is_protected_inside_the_workspace_and_ignored_outside(
    root: Path,
) -> None:
    for folder in (root / "data", root.parent / "data"):
        folder.mkdir()
        (folder / "HEAD").write_text("")
    (root / ".git").symlink_to("data")
    assert root / "data" / "hooks" in git_folders(root).protected
    assert root / ".git" in git_folders(root).watched

    (root / ".git").unlink()
    (root / ".git").symlink_to("../data")

    assert git_folders(root) == GitFolders()


@pytest.mark.parametrize(
    "content", ["", "gitdir:", "gitdir: /nowhere", "nonsense", "\xff\xfe", "gitdir: a\0b"]
)
def test_invalid_git_file_makes_nothing_writable(root: Path, content: str) -> None:
    (root / ".git").write_text(content)

    assert git_folders(root).writable == ()


def test_tripwire_restores_files_links_and_directories(root: Path) -> None:
    (root / "file").write_text("old")
    (root / "file").chmod(0o640)
    (root / "link").symlink_to("file")
    (root / "tree" / "sub").mkdir(parents=True)
    (root / "tree" / "sub" / "a").write_text("old")
    names = ("file", "link", "tree", "missing", "same")
    (root / "same").write_text("same")
    wire = Tripwire([root / name for name in names])

    (root / "file").write_text("new")
    (root / "link").unlink()
    (root / "link").mkdir()
    (root / "tree" / "sub" / "a").unlink()
    (root / "tree" / "b").write_text("new")
    (root / "missing").write_text("new")
    told = wire.restore()

    assert len(told) == 4
    assert (root / "file").read_text() == "old"
    assert (root / "file").stat().st_mode & 0o777 == 0o640
    assert (root / "link").readlink() == Path("file")
    assert (root / "tree" / "sub" / "a").read_text() == "old"
    assert not (root / "tree" / "b").exists()
    assert not (root / "missing").exists()


@contextmanager
def free_descriptors(count: int) -> Generator[None]:
    """Let the process open *count* more files within the body."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, limits[1]))
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        while count:
            os.close(held.pop())
            count -= 1
        yield
    finally:
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize(("free", "unchecked"), [(1, ["file", "tree"]), (2, ["tree"]), (3, [])])
def test_tripwire_calls_nothing_changed_that_it_could_not_read(
    root: Path, free: int, unchecked: list[str]
) -> None:
    """With too few open files, as under a low `ulimit -n`; nothing is moved away either."""
    (root / "file").write_text("same")
    (root / "tree").mkdir()
    (root / "tree" / "a").write_text("same")
    wire = Tripwire([root / "file", root / "tree"])

    with free_descriptors(free):
        told = wire.restore(root / "aside")

    assert told == [
        f"{root / name} could not be checked, and may have changed: Too many open files"
        for name in unchecked
    ]
    assert sorted(path.name for path in root.iterdir()) == ["file", "tree"]
    assert (root / "tree" / "a").read_text() == "same"


def test_tripwire_ignores_folders_with_too_many_entries(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a folder may hold whole checkouts; a file not copied must not be taken for a new one."""
    monkeypatch.setattr(tripwire, "_ENTRIES_MAX", 6)
    for folder, count in (("few", 2), ("few/deep", 3), ("many", 7)):
        (root / folder).mkdir()
        for number in range(count):
            (root / folder / str(number)).write_text("old")
    wire = Tripwire([root / "few", root / "many"])

    shutil.rmtree(root / "few" / "deep")
    (root / "many" / "0").write_text("new")
    told = wire.restore()

    assert told == [
        f"{root / 'few'} was changed, and was put back: other programs act on its content"
    ]
    assert (root / "few" / "deep" / "2").read_text() == "old"
    assert (root / "many" / "0").read_text() == "new"
    assert len(list((root / "many").iterdir())) == 7


def test_tripwire_changes_nothing_behind_a_link_in_place_of_a_folder(root: Path) -> None:
    """Threat 11: a command could have us write git's configuration in the user's home."""
    home, inner = root.parent / "home", root / "a" / "git"
    for folder in (home / "hooks", inner / "hooks"):
        folder.mkdir(parents=True)
    (home / "config").write_text("theirs")
    (home / "hooks" / "hook").write_text("theirs")
    (inner / "config").write_text("ours")
    wire = Tripwire([inner / name for name in ("config", "hooks", "commondir")])

    (root / "a").rename(root / "b")
    (root / "a").mkdir()
    inner.symlink_to(home)
    told = wire.restore()

    assert [(home / "config").read_text(), (home / "hooks" / "hook").read_text()] == ["theirs"] * 2
    assert told == [
        f"{inner / name} was changed, and could not be put back: something else is in the place of"
        " its folder"
        for name in ("config", "hooks")
    ]


def test_tripwire_loses_nothing_that_it_replaces(root: Path) -> None:
    """While a background command ran, the user may have changed it, not the command."""
    for name in ("a", "tree/b"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("old")
    wire = Tripwire([root / "a", root / "tree", root / "new"])
    for name in ("a", "tree/b", "tree/c/b", "new/d"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(name)

    told = wire.restore(root / "aside")

    kept = [Path(line.partition("; what was there is in ")[2]) for line in told]
    found = [
        sorted(path.read_text() for path in each.rglob("*") if path.is_file()) for each in kept
    ]
    assert found == [["a"], ["tree/b", "tree/c/b"], ["new/d"]]
    assert [(root / "a").read_text(), (root / "tree" / "b").read_text()] == ["old"] * 2
    assert sorted(path.name for path in root.iterdir()) == ["a", "aside", "tree"]


def test_tripwire_keeps_what_it_cannot_move_to_another_disk(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's change was deleted, with a sentence that named an empty folder."""
    (root / "tree").mkdir()
    for name in ("a", "tree/b"):
        (root / name).write_text("old")
    wire = Tripwire([root / "a", root / "tree"])
    (root / "a").write_text("a user's")
    long = "l" * 255
    (root / "tree" / long).write_text("another program's")
    keep_aside_on_another_disk(monkeypatch)

    told = wire.restore(root / "aside")

    [beside], [within] = root.glob("a.moved-*"), root.glob("tree/l*.moved-*")
    assert (beside.read_text(), within.read_text()) == ("a user's", "another program's")
    assert [line.partition("; ")[2] for line in told] == [
        f"what was there is beside it, as {name}" for name in (beside.name, within.name)
    ]
    assert [(root / "a").read_text(), (root / "tree" / "b").read_text()] == ["old"] * 2
    assert [*(root / "aside").iterdir()] == []


def test_tripwire_reports_nothing_that_was_deleted_with_its_folder(root: Path) -> None:
    (root / "a").mkdir()
    (root / "a" / ".git").write_text("gitdir: elsewhere")
    wire = Tripwire([root / "a" / ".git"])

    shutil.rmtree(root / "a")

    assert wire.restore() == []
    assert not (root / "a").exists()


def test_tripwire_restores_a_folder_in_which_a_command_made_many_levels(root: Path) -> None:
    """Threat 11: it failed with a RecursionError, and nothing else was restored."""
    (root / "hooks").mkdir()
    (root / "config").write_text("old")
    wire = Tripwire([root / "hooks", root / "config"])

    (root / "config").write_text("new")
    with little_recursion():
        deep_tree(root / "hooks", "d")
        told = wire.restore()

    assert len(told) == 2
    assert [*(root / "hooks").iterdir()] == []
    assert (root / "config").read_text() == "old"


def test_tripwire_keeps_no_folder_of_many_bytes_or_levels(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tripwire, "_FOLDER_BYTES_MAX", 100)
    monkeypatch.setattr(tripwire, "_DEPTH_MAX", 3)
    for name in ("large/a", "large/b", "deep/1/2/3/file", "small/file"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x" * 60)
    wire = Tripwire([root / name for name in ("large", "deep", "small")])

    for name in ("large/a", "deep/1/2/3/file", "small/file"):
        (root / name).write_text("new")

    assert [line.partition(" was")[0] for line in wire.restore()] == [str(root / "small")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_tripwire_leaves_a_file_alone_that_it_could_not_read(root: Path) -> None:
    (root / "file").write_text("old")
    (root / "file").chmod(0)
    wire = Tripwire([root / "file"])
    (root / "file").chmod(0o600)

    assert wire.restore() == []
    assert (root / "file").read_text() == "old"


@each_row(
    ("output", "blocked"),
    [
        ("touch: cannot touch '/etc/x': Read-only file system", "writing"),
        ("OSError: [Errno 30] EROFS: read-only file system, open '/x'", "writing"),
        ("curl: (6) Could not resolve host: example.com", "network"),
        ("Error: getaddrinfo EAI_AGAIN registry.npmjs.org", "network"),
        ("connect: Network is unreachable", "network"),
        ("curl: (7) Failed to connect to ::1 port 9 after 0 ms: Couldn't connect to server", "net"),
        ("ConnectionRefusedError: [Errno 111] Connect call failed ('127.0.0.1', 9)", "network"),
        ("cat: .env: Permission denied", "secrets"),
        ("error: could not write config file .git/config: Device or resource busy", "git's"),
        ("Unable to create config file located at `/h/.config/hatch/config.toml`.", "writing"),
        ("bwrap: Can't mkdir /x: Read-only", "did not start (Can't mkdir /x: Read-only)"),
    ],
)
def test_sandbox_denial_is_recognised_in_the_output(output: str, blocked: str) -> None:
    found = denial(output, network=False, hidden=[Path("/ws/.env")], strict=False)

    assert found is not None
    assert blocked in found
    assert sentence(found).endswith("; call again with unsandboxed=true to ask the user")


@each_row(
    "output",
    [
        "FAILED test_a.py",
        "cat: x.env: Permission denied",
        "",
        "EXDEV",
        "ModuleNotFoundError: No module named 'nosuch'",
        "FileNotFoundError: [Errno 2] No such file or directory: 'a.txt'",
    ],
)
def test_an_ordinary_failure_is_not_blamed_on_the_sandbox(output: str) -> None:
    assert denial(output, network=False, hidden=[Path("/ws/.env")], strict=False) is None


@each_row(
    ("output", "blocked"),
    [
        ("curl: (6) Could not resolve host: example.com", True),
        ("wget: unable to resolve host address 'example.com'", True),
        ("fatal: unable to access 'https://a.b/': Could not resolve host: a.b", True),
        ("ssh: Could not resolve hostname a.b: Temporary failure in name resolution", True),
        ("x\nWARNING: Retrying (...) after ... Failed to establish a new connection: x", True),
        ("npm error code EAI_AGAIN", True),
        ("app.log:3: curl: (6) Could not resolve host: example.com", False),
        ("12:00 connection refused\ncat: .env: Permission denied", False),
        ("", False),
    ],
)
def test_network_is_named_where_a_pipe_hides_the_exit_code(output: str, blocked: bool) -> None:
    """`pip download x | tail` ends with 0; a log that quotes such an error is no denial."""
    found, opened = (
        denial(output, network=network, hidden=[Path("/ws/.env")], strict=True, failed=False)
        for network in (False, True)
    )

    assert (found, opened) == ("network" if blocked else None, None)


@each_row(
    "output",
    [
        "error: gpg failed to sign the data\nfatal: failed to write commit object",
        "error: Couldn't load public key /h/.ssh/id.pub: No such file or directory?",
        "gpg: can't connect to the agent: Permission denied\nerror: unable to sign the tag",
    ],
)
def test_hidden_keys_are_named_where_a_commit_cannot_be_signed(output: str) -> None:
    """Git does not say why, and models turn signing off instead of asking."""
    found, other = (
        denial(output, network=False, hidden=[path], strict=False)
        for path in (Path("/h/.gnupg"), Path("/ws/.env"))
    )

    assert found == "perhaps: the key that signs commits"
    assert found != other


def test_long_command_with_many_words_is_soon_searched_for_what_git_left() -> None:
    """Of 64,000 characters the search took a quarter of a minute, in which nothing else ran."""
    output = "error: unable to unlink old 'a': Read-only file system"
    started_s = unstalled_s()

    assert stopped_git(output, "git " * 16_000, strict=False, failed=False) is None
    found = stopped_git(output, "git a " * 16_000 + "pull -q", strict=False, failed=False)

    assert found is not None
    assert unstalled_s() - started_s < 2


def test_network_errors_are_not_blamed_on_a_sandbox_with_network_access() -> None:
    refused = "curl: (7) Connection refused"

    assert denial(refused, network=True, hidden=[], strict=False) is None
    assert denial("Permission denied", network=True, hidden=[], strict=True) is not None


@each_row(
    ("output", "blocked"),
    [
        (
            "bash: connect: Permission denied\nbash: /dev/tcp/localhost/80: Permission denied",
            "network",
        ),
        ("curl: (7) Failed to connect to localhost port 8080: Permission denied", "network"),
        ("reading .env\nError: connect EACCES 127.0.0.1:5432", "network"),
        ("open .env\nPermissionError: [Errno 13] Permission denied", "network"),
        ("urllib.error.URLError: <urlopen error [Errno 13] Permission denied>", "network"),
        ("localhost[0: 127.0.0.1]: errno=Permission denied", "network"),
        ("PermissionError: [Errno 13] Permission denied: '.env'", "a file that may hold secrets"),
        ("cat: .env: Permission denied", "a file that may hold secrets"),
        ("loaded .env\ntouch: /etc/x: Permission denied", "perhaps: a file outside"),
    ],
)
def test_landlock_names_what_the_refused_line_is_about(output: str, blocked: str) -> None:
    """It says "permission denied" to files, sockets and ports alike."""
    found = denial(output, network=False, hidden=[Path("/ws/.env")], strict=True)

    assert found and found.startswith(blocked)


@each_row("read_only", [False, True])
@each_row("machine", ["x86_64", "aarch64"])
def test_seccomp_filter_is_a_valid_program(machine: str, *, read_only: bool) -> None:
    """The kernel takes at most 4096 instructions, and no jump past the end."""
    program = filter_program(machine=machine, read_only=read_only)
    assert program is not None
    assert len(program) % 8 == 0
    count = len(program) // 8
    assert count < 4096

    for at in range(count):
        code, yes, no = program[8 * at], program[8 * at + 2], program[8 * at + 3]
        if code & 0x07 == 0x05:
            assert at + 1 + max(yes, no) < count
    assert program[-8] == 0x06
    assert filter_program(machine="pdp11") is None


def test_seatbelt_profile_for_macos_contains_every_rule() -> None:
    """The profile cannot run on this machine; the test makes sure that no rule is missing."""
    own_files = SandboxFiles.create()
    found = Rules(
        writable=(Path("/ws"),),
        read_only=(Path('/ws/.git/"hooks'),),
        missing=(Path("/ws/.mcp.json"),),
        watched=(),
        hidden=(Path("/home/u/.ssh"),),
        network=False,
    )

    lines = list(seatbelt_profile(found, own_files))

    assert lines[:2] == ["(version 1)", "(deny default)"]
    assert '(allow file-write* (subpath "/ws"))' in lines
    assert '(deny file-write* (subpath "/ws/.git/\\"hooks"))' in lines
    assert '(deny file-write* (subpath "/ws/.mcp.json"))' in lines
    assert '(deny file-read* file-write* (subpath "/home/u/.ssh"))' in lines
    assert "(allow network*)" not in lines


@contextmanager
def not_root() -> Generator[None]:
    """Skip as root, which may look everywhere and would not notice."""
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(me)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """Yield a directory that every user may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_socket_in_a_workspace_that_the_users_group_may_write_is_hidden(reachable: Path) -> None:
    """As with umask 002. No folder can be hidden in its place."""
    reachable.chmod(0o775)
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(str(reachable / "s"))
        theirs.listen()

        assert reachable / "s" in socket_covers([reachable])


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SSH_AUTH_SOCK", "{}"),
        ("DOCKER_HOST", "unix://{}"),
        ("GPG_AGENT_INFO", "{}:1:1"),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:abstract=/x;unix:path={},guid=1"),
    ],
)
def test_socket_that_a_variable_names_is_hidden(
    reachable: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """Threat 4: of a program outside of our container, in no list of the kernel's."""
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(str(reachable / "s"))
    assert reachable / "s" not in host_sockets()

    monkeypatch.setenv(variable, value.format(reachable / "s"))

    assert reachable / "s" in host_sockets()


def test_mounted_files_are_found_in_the_table_of_mounts() -> None:
    """A container gets the socket of a program outside as a mount of its own."""
    table = (
        "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
        "99 27 0:25 /agent.sock /ssh\\040a\x0cgent rw shared:1 master:2 - tmpfs tmpfs rw\n"
        "98 27 0:26 /far /mnt/far rw - nfs4 server:/far rw\n"
    )

    assert [*mounted_files(table)] == ["/ssh a\x0cgent"]


def test_private_files_of_other_users_do_not_break_the_sandbox_rules(reachable: Path) -> None:
    """A socket in another user's private directory cannot be seen, nor used by a command."""
    private, root = reachable / "p", reachable / "ws"
    private.mkdir()
    root.mkdir()
    (root / ".env").symlink_to(private / "secret")
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(str(private / "s"))
        theirs.listen()
        assert private / "s" in host_sockets()
        private.chmod(0o000)
        try:
            with not_root():
                assert private / "s" not in host_sockets()
                assert rules(root, reachable / "nobody").writable == (root,)
        finally:
            private.chmod(0o700)


def test_temporary_places_are_private_and_removed(tmp_path: Path) -> None:
    """Threat 21."""
    own_files = SandboxFiles.create()

    modes = [
        oct(path.stat().st_mode & 0o777)
        for path in (own_files.temporary.parent, own_files.hiding_file)
    ]
    own_files.remove()

    assert modes == ["0o700", "0o0"]
    assert not own_files.temporary.parent.exists()


@pytest.mark.parametrize("target", ["a" * 300, ".git"])
def test_git_link_that_cannot_be_followed_makes_nothing_writable(root: Path, target: str) -> None:
    """Computing the rules used to raise an OSError, so that no command ran."""
    (root / ".git").symlink_to(target)

    assert git_folders(root) == GitFolders()


def test_link_that_cannot_be_followed_unprotects_no_submodule(root: Path) -> None:
    """A command could add such a link to the git folder, and then write the submodules' hooks."""
    module = root / ".git" / "modules" / "m"
    module.mkdir(parents=True)
    for folder in (root / ".git", module):
        (folder / "HEAD").touch()
    (root / ".git" / "modules" / "link").symlink_to("a" * 300)
    (root / ".git" / "commondir").symlink_to("a" * 300)

    assert {module / "hooks", module / "config"} <= set(git_folders(root).protected)


NAMES_ALIKE = ("/", "/a", "/a/b", "/a/bc", "/ab", "/a/b/c", "/a.b", "/a /b", "/é/b", "/é")


@each_row("folder", NAMES_ALIKE)
def test_paths_are_compared_by_whole_names(folder: str) -> None:
    """A mask of `/a/b` is none of `/a/bc`; compared as text, which is faster than `pathlib`."""
    paths = [*map(Path, NAMES_ALIKE)]

    found = [path for path in paths if is_inside(path, Path(folder))]
    rest = [path for path in paths if path != Path("/")]

    assert found == [path for path in paths if path.is_relative_to(folder)]
    assert outermost([Path(folder), *rest]) == [
        path
        for path in [Path(folder), *rest]
        if not {Path(folder), *rest}.intersection(path.parents)
    ]


def test_files_of_git_and_of_this_program_are_protected_under_every_name(tmp_path: Path) -> None:
    """Threat 11: `.git` of a worktree is a file, which has a hard link here."""
    (tmp_path / ".git").touch()
    (tmp_path / "link").hardlink_to(tmp_path / ".git")
    (tmp_path / "other").touch()
    names = [".git", "sub/.GIT/config", "link", "records/1", "other"]

    found = [why_protected(tmp_path / each, tmp_path, [tmp_path / "records"]) for each in names]

    assert found == [
        *("part of git's own data", "part of git's own data", "another name of git's own data"),
        *("part of this program's own settings and records", None),
    ]


def test_what_starts_programs_is_told_before_it_exists() -> None:
    """Threat 10: in a folder below as well, except the settings of this program."""
    root = Path("/nowhere")
    names = [".vscode/tasks.json", "web/.MCP.json", "appsettings.toml", "web/appsettings.toml"]

    found = [what_it_starts(root / each, root) for each in names]

    assert found == [
        "can make the editor run programs",
        "names MCP servers: programs that agent-cli and other agents start",
        "holds agent-cli's settings for this folder, programs to start among them",
        None,
    ]
