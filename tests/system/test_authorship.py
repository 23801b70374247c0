"""Who could have written a file: judged against what really changes when the workspace changes."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.system import authorship
from agent_cli.system.authorship import Author, SessionFolders, author_of
from agent_cli.system.paths import config_dir, real_path

_FOLDERS = ("ws", "ws/a", "ws/a/b", "added", "out", "out/c", "home")
_NAMES = ("f", "g", "a", "b", "c", "x")


class _Tree:
    """Folders and files of a user and of a stranger, in a directory of their own."""

    def __init__(self, base: Path) -> None:
        self.base = base
        (base / "f").write_text("beside the roots")
        for name in _FOLDERS:
            (base / name).mkdir()
            (base / name / "f").write_text(name)
        self.session = SessionFolders((base / "ws", base / "added"), base / "home", (), ())

    def add(self, folder: str, name: str, target: str, kind: str) -> None:
        new, old = self.base / folder / name, self.base / target
        if os.path.lexists(new):
            return
        if kind == "hard":
            if old.is_file() and not old.is_symlink():
                os.link(old, new)
        else:
            new.symlink_to(old if kind == "absolute" else os.path.relpath(old, new.parent))

    def paths(self) -> Iterator[Path]:
        """Yield all paths of few steps, `..` among them, that lead to a file from outside."""
        folders = [os.fspath(self.base / name) for name in ("out", "home", "ws")]
        for _ in range(4):
            files = [f"{folder}/{name}" for folder in folders for name in _NAMES]
            yield from map(Path, filter(os.path.isfile, files))
            below = [f"{folder}/{name}" for folder in folders for name in (*_NAMES, "..")]
            folders = sorted(filter(os.path.isdir, below))[:60]

    def identity(self, path: Path) -> tuple[int, int] | None:
        """Return the identity of the file that *path* leads to; None if there is none."""
        try:
            state = path.stat()
        except OSError:
            return None
        return state.st_dev, state.st_ino

    def depend_on_a_root(self, files: list[Path]) -> list[Path]:
        """Return the paths of which a stranger who owns what lies in the roots decides the content.

        Those of which the file is gone or another once the roots are empty, or lies in a root.
        """
        before = [self.identity(path) for path in files]
        inside = {
            self.identity(Path(folder, name))
            for root in self.session.roots
            for folder, _, names in os.walk(root)
            for name in names
            if not Path(folder, name).is_symlink()
        }
        for number, root in enumerate(self.session.roots):
            away = self.base / f"away{number}"
            away.mkdir()
            for entry in list(root.iterdir()):
                entry.rename(away / entry.name)
        return [
            path
            for path, known in zip(files, before, strict=True)
            if known in inside or self.identity(path) != known
        ]


_TARGETS = st.tuples(st.sampled_from(_FOLDERS), st.sampled_from(["", "f", "a", "g", "..", "../c"]))
_LINKS = st.tuples(
    st.sampled_from(_FOLDERS),
    st.sampled_from(_NAMES),
    _TARGETS.map("/".join),
    st.sampled_from(["absolute", "relative", "hard"]),
)


@settings(max_examples=60, deadline=None)
@given(links=st.lists(_LINKS, min_size=3, max_size=10))
def test_a_file_is_the_workspaces_if_and_only_if_the_workspace_decides_what_is_read(
    links: list[tuple[str, str, str, str]],
) -> None:
    """Threat 24: emptying the workspace changes what a path reads, or the path is not of it."""
    with tempfile.TemporaryDirectory() as folder:
        tree = _Tree(real_path(Path(folder)))
        for link in links:
            tree.add(*link)
        files = list(tree.paths())

        found = {path: author_of(path, tree.session).author for path in files}

        strangers = tree.depend_on_a_root(files)
        assert [path for path in files if found[path] is Author.WORKSPACE] == strangers
        assert {*found.values()} <= {Author.WORKSPACE, Author.USER}


def _repository(folder: Path) -> Path:
    (folder / ".git").mkdir(parents=True)
    return folder


def test_parent_folders_of_the_workspace_in_its_repository_are_the_strangers(
    tmp_path: Path,
) -> None:
    """Threat 24: what lies beside the folder where the session started was cloned with it."""
    repository = _repository(tmp_path / "outer")
    inner = _repository(repository / "vendor" / "inner")
    (inner / "pkg").mkdir()
    session = SessionFolders.of(inner / "pkg")

    for place in (repository / "evil.json", inner / "evil.json", inner / "pkg" / "evil.json"):
        assert author_of(place, session).author is Author.WORKSPACE
    assert author_of(tmp_path / "mine.json", session).author is Author.USER


def test_main_checkout_and_other_worktrees_belong_to_the_same_stranger(tmp_path: Path) -> None:
    """Threat 24: git's pointers are followed in both directions, without git."""
    main, here, other = _repository(tmp_path / "main"), tmp_path / "here", tmp_path / "other"
    for tree in (here, other):
        own = main / ".git" / "worktrees" / tree.name
        own.mkdir(parents=True)
        tree.mkdir()
        (tree / ".git").write_text(f"gitdir: {own}\n")
        (own / "gitdir").write_text(f"{tree / '.git'}\n")
        (own / "commondir").write_text("../..\n")

    for opened in (main, here):
        session = SessionFolders.of(opened)
        for tree in (main, here, other):
            assert author_of(tree / "sub" / "evil.json", session).author is Author.WORKSPACE


def test_superproject_of_a_submodule_belongs_to_the_same_stranger(tmp_path: Path) -> None:
    """Threat 24: its pointer leads into the git folder of the superproject."""
    above, module = _repository(tmp_path / "super"), tmp_path / "elsewhere"
    (above / ".git" / "modules" / "m").mkdir(parents=True)
    module.mkdir()
    (module / ".git").write_text("gitdir: ../super/.git/modules/m\n")

    found = author_of(above / "evil.json", SessionFolders.of(module))

    assert found.author is Author.WORKSPACE


def test_pointers_of_git_that_lead_nowhere_or_in_circles_change_nothing(tmp_path: Path) -> None:
    """A repository may hold anything under these names."""
    for number, content in enumerate(("gitdir: \0", "", "gitdir: .git", "gitdir: /nowhere/.git")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / ".git").write_text(content)
        assert SessionFolders.of(folder).roots == (folder,)
    loop = tmp_path / "loop"
    loop.mkdir()
    (loop / ".git").symlink_to(".git")

    assert SessionFolders.of(loop).roots == (loop,)


@pytest.mark.parametrize(
    ("name", "author"),
    [
        ("project/x.json", Author.WORKSPACE),
        (".mcp.json", Author.USER),
        (".local/bin/server", Author.USER),
        ("bin/server", Author.USER),
        (".linked/x.json", Author.WORKSPACE),
    ],
)
def test_settings_in_a_home_directory_that_is_the_workspace_are_the_users(
    name: str, author: Author
) -> None:
    """Threat 24: no tool and no command may write those; all else in it, the session can."""
    home = Path.home()
    (home / "project").mkdir(parents=True)
    (home / ".linked").symlink_to("project")

    assert author_of(home / name, SessionFolders.of(home)).author is author


def test_repository_of_dotfiles_does_not_make_the_home_directory_a_strangers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It counts only if it is opened itself."""
    home = _repository(tmp_path / "home")
    monkeypatch.setenv("HOME", str(home))
    (home / "work").mkdir()

    session = SessionFolders.of(home / "work")

    assert session.roots == (home / "work",)
    assert author_of(home / "mine.json", session).author is Author.USER


def test_own_settings_are_the_users_even_inside_the_workspace() -> None:
    """Threat 24: whoever opens ~/.config gives nobody the settings there."""
    own = config_dir()
    (own / "sub").mkdir(parents=True)
    (own.parent / "planted").write_text("")
    (own / "linked").symlink_to("../planted")
    session = SessionFolders.of(own.parent)

    assert author_of(own / "sub" / "mcp.json", session).author is Author.USER
    assert author_of(own / "linked", session).author is Author.WORKSPACE
    assert author_of(own / "mcp.json", SessionFolders.of(own)).author is Author.USER


def test_our_installation_inside_the_workspace_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Threat 24: by where it lies; a link of the workspace to it is the workspace's."""
    program = tmp_path / "ws" / ".venv" / "bin" / "rg"
    program.parent.mkdir(parents=True)
    program.write_text("")
    (tmp_path / "ws" / "rg").symlink_to(program)
    monkeypatch.setattr("sys.prefix", str(tmp_path / "ws" / ".venv"))
    session = SessionFolders.of(tmp_path / "ws")

    assert author_of(program, session).author is Author.INSTALLATION
    assert author_of(tmp_path / "ws" / "rg", session).author is Author.WORKSPACE


def test_links_in_a_circle_are_unknown_and_so_a_strangers(tmp_path: Path) -> None:
    """Threat 24: what cannot be judged is not trusted."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")

    found = author_of(tmp_path / "one", SessionFolders.of(tmp_path / "ws"))

    assert found.author is Author.UNKNOWN
    assert found.author.is_stranger


def test_hard_links_in_a_workspace_too_large_to_search_are_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The search ends; the answer is then the careful one."""
    root = tmp_path / "ws"
    root.mkdir()
    for number in range(5):
        (root / str(number)).write_text("")
    (tmp_path / "mine").write_text("")
    os.link(tmp_path / "mine", tmp_path / "also-mine")
    session = SessionFolders.of(root)

    assert author_of(tmp_path / "mine", session).author is Author.USER
    monkeypatch.setattr(authorship, "_SEARCHED_MAX", 4)
    assert author_of(tmp_path / "mine", session).author is Author.UNKNOWN


def test_another_spelling_of_a_folder_is_that_folder(tmp_path: Path) -> None:
    """Threat 24: some file systems ignore case; folders are compared by device and inode."""
    root = tmp_path / "ws"
    (root / "sub").mkdir(parents=True)
    session = SessionFolders.of(root)
    spelled = SessionFolders((tmp_path / "link",), session.home, (), ())
    (tmp_path / "link").symlink_to("ws")

    assert author_of(root / "sub" / "f", spelled).author is Author.WORKSPACE


@pytest.mark.parametrize("links", [40, 41])
def test_as_many_links_are_followed_as_the_system_follows(tmp_path: Path, links: int) -> None:
    """path_resolution(7): beyond 40 nothing can be opened, so no file is behind them."""
    (tmp_path / "home").mkdir()
    (tmp_path / "l0").write_text("x")
    for number in range(1, links + 1):
        (tmp_path / f"l{number}").symlink_to(f"l{number - 1}")
    last = tmp_path / f"l{links}"
    session = SessionFolders((), tmp_path / "home", (), ())

    if links == 40:
        assert last.read_text() == "x"
        assert author_of(last, session) == author_of(tmp_path / "l0", session)
    else:
        with pytest.raises(OSError, match="symbolic links"):
            last.read_text()
        assert author_of(last, session).author is Author.UNKNOWN
