"""`--worktree`: a session in a git worktree of its own, and the state it leaves."""

import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest

from agent_cli.app.arguments import Arguments, parse_arguments
from agent_cli.cli.worktree import inside_worktree
from agent_cli.contracts.errors import UsageError
from agent_cli.trust.store import TrustStore
from tests.e2e.program import AGENT_CLI, agent_cli, environment
from tests.messages_api import reply, serve_in_thread, tool_use
from tests.repl.terminal import Terminal

YOLO = ("--permission-mode", "yolo")
WRITE = tool_use("write", {"path": "new.txt", "content": "new\n"})
COMMIT = tool_use(
    "bash",
    {"command": "git add -A && git -c user.name=A -c user.email=a@b.c commit -qm more && pwd"},
)


def git(*words: str, folder: Path | None = None) -> str:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, timeout=60
    )
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit; the tests run in its folder `sub`."""
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    git("init", "-q", "--initial-branch=main", folder=folder)
    (folder / "sub" / "a.txt").write_text("one\n")
    git("add", ".", folder=folder)
    git("commit", "-qm", "first", folder=folder)
    monkeypatch.chdir(folder / "sub")
    return folder


def test_changed_worktree_is_kept_and_its_merge_commands_are_printed(repository: Path) -> None:
    """Files and commits are in the worktree alone; the commands in the message work as printed."""
    with serve_in_thread(reply(WRITE), reply(COMMIT), reply("Done.")) as api:
        ended = agent_cli("-p", "go", "--worktree", "fix", *YOLO, api=api)
    path = repository.parent / ".agent-cli-worktrees" / "project" / "fix"

    assert (ended.code, ended.stdout) == (0, "Done.\n")
    assert f"worktree kept: {path} (1 commit, 0 files not committed)" in ended.stderr
    assert (path / "sub" / "new.txt").exists()
    assert not (repository / "sub" / "new.txt").exists()
    merge, remove = (line.partition(":")[2] for line in ended.stderr.splitlines()[-2:])
    subprocess.run(["sh", "-ec", f"{merge}\n{remove}"], check=True, capture_output=True)
    assert (repository / "sub" / "new.txt").read_text() == "new\n"
    assert not path.exists()
    assert git("branch", folder=repository) == "* main"


@pytest.mark.parametrize("is_bare", [False, True])
def test_work_is_merged_where_it_began_not_into_the_main_working_tree(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_bare: bool
) -> None:
    """That one has another branch, or no files at all: many keep a bare clone with worktrees."""
    main, feature = repository, tmp_path / "feature"
    if is_bare:
        main = tmp_path / "bare.git"
        git("clone", "-q", "--bare", str(repository), str(main))
    git("worktree", "add", "-q", "-b", "feature", str(feature), folder=main)
    monkeypatch.chdir(feature)
    with serve_in_thread(reply(WRITE), reply(COMMIT), reply("Done.")) as api:
        ended = agent_cli("-p", "go", "--worktree", "fix", *YOLO, api=api)

    merge, remove = (line.partition(":")[2] for line in ended.stderr.splitlines()[-2:])
    subprocess.run(["sh", "-ec", f"{merge}\n{remove}"], check=True, capture_output=True)
    assert (feature / "new.txt").read_text() == "new\n"
    assert not (repository / "new.txt").exists()
    assert "agent/fix" not in git("branch", folder=main)


def test_user_and_model_are_told_that_the_submodules_of_a_worktree_are_empty(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In each session of the worktree, until they are checked out."""
    commit = git("rev-parse", "HEAD", folder=repository)
    git("update-index", "--add", "--cacheinfo", f"160000,{commit},libs", folder=repository)
    (repository / ".gitmodules").write_text('[submodule "libs"]\n\tpath = libs\n')
    git("add", ".gitmodules", folder=repository)
    git("commit", "-qm", "submodule", folder=repository)
    arguments = parse_arguments(["--worktree", "fix", "--append-system-prompt", "Be brief."])
    said = "the folders of its submodules are empty; run `git submodule update --init`"

    for note in ("one", "two"):
        with inside_worktree(arguments) as folder:
            assert said in capsys.readouterr().err
            prompt = folder.arguments.append_system_prompt or ""
            assert prompt.startswith("Be brief.\n\nThis is a git worktree.")
            assert "checks none out in a worktree: libs. Run" in prompt
            Path("kept").write_text(note)
    with inside_worktree(arguments):
        Path("..", "libs", "file").touch()
    capsys.readouterr()
    with inside_worktree(arguments) as folder:
        assert said not in capsys.readouterr().err
        assert folder.arguments.append_system_prompt == "Be brief."


def test_files_not_committed_come_with_the_commands_that_are_printed(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The branch was merged in its own worktree, which does nothing, and then deleted."""
    monkeypatch.setenv("GIT_EDITOR", "echo new >")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Test")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "test@example.org")
    with serve_in_thread(reply(WRITE), reply("Done.")) as api:
        ended = agent_cli("-p", "go", "--worktree", "fix", *YOLO, api=api)

    assert "(0 commits, 1 file not committed)" in ended.stderr
    commands = [line.partition(":")[2] for line in ended.stderr.splitlines()[-3:]]
    subprocess.run(["sh", "-ec", "\n".join(commands)], check=True, capture_output=True)
    assert (repository / "sub" / "new.txt").read_text() == "new\n"
    assert git("branch", folder=repository) == "* main"


def test_files_on_the_command_line_are_those_of_the_directory_it_was_typed_in(
    repository: Path,
) -> None:
    """They need not be in the worktree."""
    words = ["--worktree=x", "--mcp-config", "m.json", "--model=high", "--settings", "s.toml"]
    with inside_worktree(parse_arguments(words)) as place:
        given = place.arguments

    here = repository / "sub"
    assert [each.value for each in given.overrides] == [(str(here / "m.json"),), "high"]
    assert given.settings_file == here / "s.toml"


def test_worktree_without_changes_is_removed(repository: Path) -> None:
    """Its branch is removed, too; a missing name is generated."""
    with serve_in_thread(reply("Nothing to do.")) as api:
        ended = agent_cli("-p", "go", "--worktree", api=api)

    assert (ended.code, ended.stdout) == (0, "Nothing to do.\n")
    assert "removed: nothing changed in it" in ended.stderr
    assert git("branch", folder=repository) == "* main"
    assert len(git("worktree", "list", folder=repository).splitlines()) == 1


def test_repeated_worktree_name_reuses_the_worktree(repository: Path) -> None:
    """`-c` finds its session; files on the command line are relative to the shell's directory."""
    Path("prompt.txt").write_text("and now?")
    with serve_in_thread(reply(WRITE), reply("Done."), reply("As I said.")) as api:
        agent_cli("-p", "go", "--worktree=fix", *YOLO, api=api)
        again = agent_cli(
            *("--prompt-file", "prompt.txt", "--output-dir", "out", "-c", "--worktree", "fix"),
            api=api,
        )

    assert again.stdout == "As I said.\n"
    assert "0 commits, 1 file not committed" in again.stderr
    assert "add --all && " in again.stderr
    assert len(api.requests[-1].body["messages"]) > 3
    assert Path("out", "result.json").exists()


def test_repl_works_in_the_worktree(repository: Path) -> None:
    """So do shell escapes; the message about the worktree comes after the last prompt."""
    with (
        serve_in_thread(reply("Hello.")) as api,
        Terminal(AGENT_CLI, "--worktree", "fix", "--trust", **environment(api, {})) as terminal,
    ):
        terminal.until(lambda: "worktrees/project/fix/sub" in terminal.text.replace("\n", ""))
        terminal.send("!pwd && touch mine\r")
        terminal.until(lambda: "fix/subyou>" in terminal.text.replace("\n", ""))
        terminal.send("/exit\r")
        assert terminal.exit_code() == 0
        terminal.until("remove it: ")

    assert "1 file not committed" in terminal.text


def test_worktree_inherits_trust_if_its_settings_are_the_same(repository: Path) -> None:
    """Trust ends with the worktree; a commit with other settings needs trust of its own."""
    store = TrustStore.of_user()
    store.trust(repository / "sub")
    Path("appsettings.toml").write_text("max_rounds = 7\n")
    with serve_in_thread(reply("a"), reply("b")) as api:
        changed = agent_cli("-p", "go", "--worktree", api=api)
        git("add", ".")
        git("commit", "-qm", "settings")
        store.trust(repository / "sub")
        same = agent_cli("-p", "go", "--worktree", api=api)

    assert "appsettings.toml ignored" not in changed.stderr  # it is not in the commit
    assert "ignored" not in same.stderr
    assert "worktrees" not in store._path.read_text()  # pyright: ignore[reportPrivateUsage]


def test_invalid_worktree_name_is_refused(repository: Path) -> None:
    """A prompt right after the option would be taken for the name, too."""
    for name in ("../up", "a..b", "-x", "a.lock", "x" * 80):
        words = parse_arguments(["-p", "go", f"--worktree={name}"])
        with pytest.raises(UsageError, match="cannot be a name"), inside_worktree(words):
            pass

    ended = agent_cli("-p", "go", "--worktree=fix it")

    assert ended.code == 2
    assert "cannot be a name" in ended.stderr


def test_worktree_option_explains_why_there_can_be_no_worktree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs a repository, a first commit, and a command with a session."""
    outside = agent_cli("-p", "go", "--worktree")
    git("init", "-q")
    empty = agent_cli("-p", "go", "--worktree")
    doctor = agent_cli("doctor", "--worktree")
    other = agent_cli("-p", "go", "--worktree", GIT_TEST_ASSUME_DIFFERENT_OWNER="1")
    git("config", "core.bare", "true")
    bare = agent_cli("-p", "go", "--worktree")

    assert [each.code for each in (outside, empty, doctor, other, bare)] == [2] * 5
    assert "run git config --global --add safe.directory DIR" in other.stderr
    assert "is a bare repository: change to one of its worktrees" in bare.stderr
    assert "in no git repository" in outside.stderr
    assert "has no commit yet" in empty.stderr
    assert "use it with the REPL or -p" in doctor.stderr


def test_branch_whose_worktree_is_elsewhere_is_not_to_be_deleted_with_its_commits(
    repository: Path,
) -> None:
    """The repository was moved, and its worktrees were not: the branch alone has the work."""
    with serve_in_thread(reply(WRITE), reply(COMMIT), reply("Done.")) as api:
        agent_cli("-p", "go", "--worktree", "fix", *YOLO, api=api)
    git("worktree", "list", folder=repository)
    moved = repository.parent / "elsewhere" / "project"
    moved.parent.mkdir()
    repository.rename(moved)

    with serve_in_thread() as api, contextlib.chdir(moved):
        ended = agent_cli("-p", "go", "--worktree", "fix", *YOLO, api=api)

    assert ended.code == 2
    assert "git branch -d, which keeps commits" in ended.stderr
    assert "-D" not in ended.stderr


def test_worktree_that_another_session_uses_is_not_removed(repository: Path) -> None:
    """The session that created it ends first, and nothing has changed yet."""
    command = (AGENT_CLI, "--worktree", "fix")
    with (
        serve_in_thread() as api,
        Terminal(*command, **environment(api, {})) as first,
    ):
        first.until_prompt()
        with Terminal(*command, **environment(api, {})) as second:
            second.until_prompt()
            assert "another session works in it too" in " ".join(second.text.split())
            assert "another session" not in first.text
            first.send("/exit\r")
            assert first.exit_code() == 0
            assert "worktree kept" in first.text


def test_worktree_that_was_there_before_is_shared_by_sessions(repository: Path) -> None:
    """The first one, alone in it, kept the lock for itself: the second one waited for its end."""
    path = repository.parent / ".agent-cli-worktrees" / "project" / "fix"
    git("worktree", "add", "-q", str(path), folder=repository)
    command = (AGENT_CLI, "--worktree", "fix")
    with (
        serve_in_thread() as api,
        Terminal(*command, **environment(api, {})) as first,
    ):
        first.until_prompt()
        with Terminal(*command, **environment(api, {})) as second:
            second.until_prompt()
            assert "another session works in it too" in " ".join(second.text.split())
            assert "you> worktree" not in second.text
            assert "another session" not in first.text


def test_end_of_a_session_is_reported_after_its_directory_was_deleted(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A clean-up, or another program, may delete any directory while the session runs."""
    path = repository.parent / ".agent-cli-worktrees" / "project" / "fix"
    with inside_worktree(Arguments(worktree="fix")):
        shutil.rmtree(Path.cwd())
    changed = capsys.readouterr().err
    with inside_worktree(Arguments(worktree="fix")):
        git("worktree", "remove", "--force", str(path), folder=repository)
    gone = capsys.readouterr().err

    assert changed.startswith(f"worktree kept: {path} (0 commits, 1 file not committed)\n")
    assert gone == f"worktree {path} was removed during the session\n"
    assert Path.cwd() == repository / "sub"


def test_branch_chosen_by_the_model_is_quoted_and_never_deleted(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands are meant to be copied; the branch may be one of the user's."""
    with inside_worktree(Arguments(worktree="fix")):
        git("checkout", "-q", "-b", "mine;touch${IFS}x")
        git("commit", "-q", "--allow-empty", "-m", "more")

    said = capsys.readouterr().err
    assert " merge 'mine;touch${IFS}x'\n" in said
    assert "branch -D" not in said
