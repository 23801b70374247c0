"""Files that would make other programs run commands are moved away after the command made them."""

import contextlib
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agent_cli.sandbox import SandboxPolicy, State
from agent_cli.sandbox import policy as policy_module
from agent_cli.sandbox.acting import Acting
from agent_cli.sandbox.aftermath import appeared, unsearched
from agent_cli.sandbox.git_config import harmless, hooks_path
from agent_cli.sandbox.git_folders import git_folders
from agent_cli.system.trees import forget_old, move_aside
from tests.sandbox.world import git, keep_aside_on_another_disk, world
from tests.tables import each_row


def clean_up(before: Acting, after: Acting, aside: Path, writable: Sequence[Path]) -> Iterator[str]:
    """Move all away that appeared, as a person may decide."""
    for each in appeared(before, after, writable):
        yield from each.undone(aside)
    yield from unsearched(before, after)


EVIL = "[core]\n\tfsmonitor = touch ran; false\n"


REPOSITORIES = (
    "git init -q new",
    "git init -q new && cp -r new/.git new/git && rm -r new/.git && ln -s git new/.git",
    "git init -q new && mv new/.git node_modules && echo gitdir: ../node_modules > new/.git",
    "git init -q new && mkdir node_modules && mv new/.git 'node_modules/a '"
    " && echo 'gitdir: ../node_modules/a ' > new/.git",
    "git init -q new && mv new/.git node_modules"
    r" && printf 'gitdir: ../node_modules\0' > new/.git",
    "git init -q --bare new",
)


def test_repository_made_by_a_command_cannot_make_git_run_programs() -> None:
    """Threat 11: the command controls its hooks and configuration, and git runs them later."""
    with world("bwrap") as place:
        ran, new = place.base / "ran", place.root / "new"
        spies = (
            f"find . -path ./.git -prune -o -name config -print | while IFS= read -r each; do"
            f" printf '[core]\\n\\tfsmonitor = touch {ran}; false\\n\\tpager = touch {ran}\\n"
            f'\\thooksPath = /x\\n\' >> "$each"; hook="${{each%config}}hooks/post-commit";'
            f' echo \'touch {ran}\' > "$hook"; chmod +x "$hook"; done'
        )
        for command in REPOSITORIES:
            output = place.output(f"{command}; {spies}; find . -name post-commit")
            assert "post-commit" in output, output
            for arguments in (["status"], ["log"], ["commit", "--allow-empty", "-qm", "x"]):
                # A bare repository has no status, and nothing to commit to.
                with contextlib.suppress(subprocess.CalledProcessError):
                    git(new, *arguments)

            assert not ran.exists(), command
            assert any(
                "post-commit makes other programs run commands" in line for line in place.put_back
            )
            assert any(
                "the part of it that starts no program stays" in line for line in place.put_back
            )
            shutil.rmtree(new)
            shutil.rmtree(place.root / "node_modules", ignore_errors=True)


def test_copy_of_a_folder_cannot_take_the_place_of_one_with_protected_files() -> None:
    """Threat 11: a mount moves with a renamed folder, so the copy's files could be written."""
    with world("bwrap") as place:
        root, ran = place.root, place.base / "ran"
        git(root, "init", "-q", "--bare", ".git/modules/lib")
        git(root, "init", "-q", "deep/repo")
        git(root, "init", "-q", "other")
        (root / "tree").mkdir()
        (root / "tree" / ".git").write_text("gitdir: ../other/.git\n")
        (root / "pkg" / ".vscode").mkdir(parents=True)
        configurations = ("deep/repo/.git/config", ".git/modules/lib/config")

        run = place.run(
            "for each in deep pkg tree .git/modules; do mv $each $each-2;"
            " cp -r $each-2 $each; done;"
            f' for each in {" ".join(configurations)}; do echo "$EVIL" >>$each; done;'
            " echo >deep/repo/.git/hooks/post-checkout; echo >pkg/.vscode/tasks.json; mkdir evil;"
            ' echo "$EVIL" >evil/config; echo gitdir: ../evil >tree/.git; echo made',
            EVIL=f"[core]\n\tfsmonitor = touch {ran}; false",
        )

        assert run.stdout == "made\n", run.stderr
        assert not any("fsmonitor" in (root / each).read_text() for each in configurations)
        assert not (root / "deep/repo/.git/hooks/post-checkout").exists()
        assert not (root / "pkg" / ".vscode").exists()
        assert (root / "evil" / "config").read_text() == "[core]\n"


def test_command_cannot_lead_git_to_another_folder() -> None:
    """Threat 11: the folder of a `--separate-git-dir` does not name its `.git` file, nor a link."""
    with world("bwrap") as place:
        root, apart, link = place.root, place.base / "apart", place.root / "x" / ".git"
        (root / ".git").rename(apart)
        (root / ".git").write_text(f"gitdir: {apart}\n")
        for folder in (root / "data", link.parent):
            folder.mkdir()
        link.symlink_to("../data")

        place.run(
            "mkdir -p node_modules/evil && cd node_modules/evil && mkdir objects refs && touch HEAD"
            " && echo '[core] fsmonitor = x' >config && cd ../.. && rm x/.git"
            " && echo gitdir: node_modules/evil >.git && ln -s ../node_modules/evil x/.git"
        )

        assert (root / ".git").read_text() == f"gitdir: {apart}\n"
        assert link.readlink() == Path("../data")
        assert [line.partition(";")[0].partition(" was")[2] for line in place.put_back] == [
            " changed, and was put back: other programs act on its content"
        ] * 2


def test_command_cannot_change_hooks_that_the_configuration_names() -> None:
    """Threat 11: teams keep them in the working tree, and git runs them with the next commit."""
    with world("bwrap") as place:
        root, hook = place.root, place.root / "tools" / "hooks" / "pre-commit"
        hook.parent.mkdir(parents=True)
        hook.write_text("true")
        git(root, "config", "core.hooksPath", "tools/hooks")

        hooks = "tools/hooks/pre-commit"
        run = place.run(f"echo evil >{hooks}; mv tools x; cp -r x tools; echo evil >{hooks}")
        (root / "tools" / "hooks").mkdir(parents=True)
        place.run(f"echo evil >{hooks}")

        assert run.stderr == f"bash: line 1: {hooks}: Read-only file system\n"
        assert [*(root / "tools" / "hooks").iterdir()] == []
        assert (root / "x" / "hooks" / "pre-commit").read_text() == "true"


@each_row(
    ("config", "named"),
    [
        ("[core]\n\thooksPath = .githooks\n", ".githooks"),
        ('[CORE]\nHooksPath="a b" # ours\n', "a b"),
        ("[core]\nhookspath=x ; c\n[user]\nhooksPath = y\n", "x"),
        ("[user]\n[core] hooksPath = x\n[core]\n", "x"),
        ("\ufeff[core]\n\thooksPath = a\u2028b\n", "a\u2028b"),
        ("[core]\nbare = false\n", ""),
    ],
)
def test_folder_of_hooks_is_read_from_a_configuration(config: str, named: str) -> None:
    assert hooks_path(config) == named


def test_folder_of_templates_that_the_configuration_names_is_protected(tmp_path: Path) -> None:
    """Threat 11: git copies hooks from it into new repositories."""
    folder = tmp_path / "ws" / ".git"
    folder.mkdir(parents=True)
    (folder / "HEAD").touch()
    (folder / "config").write_text("[init]\n\ttemplateDir = tools/template\n")
    (tmp_path / "ws" / "tools" / "template").mkdir(parents=True)

    assert git_folders(tmp_path / "ws").named == (tmp_path / "ws" / "tools" / "template",)


@pytest.mark.parametrize("link", ["hooks", "hooks/pre-commit"])
@pytest.mark.parametrize(
    ("target", "is_named"), [("tools/check", True), (".git/own", False), ("../x", False)]
)
def test_target_of_a_link_among_the_hooks_is_protected_in_the_working_tree(
    tmp_path: Path, link: str, target: str, *, is_named: bool
) -> None:
    """Threats 2 and 11: each commit runs `tools/check`."""
    root = tmp_path / "ws"
    place = root / ".git" / link
    place.parent.mkdir(parents=True)
    (root / ".git" / "HEAD").touch()
    place.symlink_to(root / target)

    assert git_folders(root).named == ((root / target,) if is_named else ())


@pytest.mark.parametrize("name", [".", "..", "/", "~/hooks", ".git", "/etc/hooks", "../x"])
def test_only_hooks_inside_the_working_tree_are_protected(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "ws" / ".git"
    folder.mkdir(parents=True)
    (folder / "HEAD").touch()
    (folder / "config").write_text(f"[core]\n\thooksPath = {name}\n")

    assert git_folders(tmp_path / "ws").named == ()


NAMED = """
[include]
    path = ../extra.inc
    path = inside.inc  # beside this file
[includeIf "gitdir:/x/"]
    path = "../conditional.inc"
[core]
    fsmonitor = tools/monitor.sh
    editor = code.sh --wait
[diff "pdf"]
    textconv = python3 ./tools/pdf.py
[credential]
    helper = "!f() { sh 'tools/helper.sh'; }; f"
[alias]
    lint = !tools/lint.sh && echo x
    deep = "!cd tools/sub && ./deep.sh"
[gpg]
    program = "tools/my gpg"
[difftool "t"]
    cmd = \\"tools/a tool\\" $LOCAL
[remote "origin"]
    url = docs/not-a-program
"""


@each_row("state", ["bwrap", "landlock"])
def test_command_cannot_change_files_that_the_configuration_of_git_names(state: State) -> None:
    """Threat 11: git reads or runs each of them with the user's next command."""
    tools = [f"tools/{name}" for name in ("monitor.sh", "pdf.py", "helper.sh", "lint.sh", "deep")]
    tools += ["tools/sub/deep.sh", "tools/my gpg", "tools/a tool"]
    names = ["extra.inc", ".git/inside.inc", "code.sh", *tools]
    with world(state) as place:
        root = place.root
        (root / "tools" / "sub").mkdir(parents=True)
        with (root / ".git" / "config").open("a") as file:
            file.write(NAMED)
        for name in (*names, "docs-not"):
            (root / name).write_text("mine")
        (root / "extra.inc").write_text("[pager]\n\tlog = tools/deep\n")
        before = {name: (root / name).read_text() for name in names}

        place.run(
            f'for each in {shlex.join(names)} conditional.inc; do echo evil >"$each"; done;'
            " echo more >docs-not; mkdir docs; echo free >docs/not-a-program"
        )

        assert {name: (root / name).read_text() for name in names} == before
        assert not (root / "conditional.inc").exists(), "it is a question, answered with undo"
        assert (root / "docs-not").read_text() == "more\n"
        assert (root / "docs" / "not-a-program").exists()


USERS = """
[core]
    hooksPath = .githooks
[includeIf "gitdir:~/projects/"]
    path = {root}/team.gitconfig
[alias]
    test = !make test
    ship = !tools/ship.sh
"""


@each_row("state", ["bwrap", "landlock"])
def test_command_cannot_change_files_that_the_users_own_configuration_names(state: State) -> None:
    """Threat 11: `git config --global` counts in each repository, and includes one for a team."""
    names = [".githooks/pre-commit", "team.gitconfig", "team.hooks/pre-push", "tools/ship.sh"]
    with world(state) as place:
        root = place.root
        for name in (*names, "make", "test"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text("mine")
        (Path.home() / ".gitconfig").write_text(USERS.format(root=root))
        (root / "team.gitconfig").write_text(f"[core]\n\thooksPath = {root}/team.hooks\n")
        before = {name: (root / name).read_text() for name in names}

        place.run(
            f'for each in {shlex.join([*names, "make", "test"])}; do echo evil >"$each"; done'
        )

        assert {name: (root / name).read_text() for name in names} == before
        assert (root / "make").read_text() == (root / "test").read_text() == "evil\n"


def test_file_that_the_users_configuration_includes_is_protected_beside_repositories() -> None:
    """Threat 11: the folder of all projects has one for them, and is no repository itself."""
    with world("bwrap") as place:
        (place.root / ".git").rename(place.base / "elsewhere")
        (place.root / "team.gitconfig").write_text("[user]\n\tname = T\n")
        (Path.home() / "a.gitconfig").write_text(
            f"[include]\n\tpath = {place.root}/team.gitconfig\n"
        )
        (Path.home() / ".gitconfig").write_text("[include]\n\tpath = a.gitconfig\n")

        run = place.run("echo evil >team.gitconfig")

        assert "Read-only file system" in run.stderr


def test_link_to_a_file_that_the_users_configuration_includes_is_protected() -> None:
    """Threat 11: git reads what it leads to then, and includes from where the link lies."""
    with world("bwrap") as place:
        root, home = place.root, Path.home()
        (root / "real").mkdir()
        (root / "real" / "git.inc").write_text("[include]\n\tpath = more.inc\n")
        (root / "git.inc").symlink_to("real/git.inc")
        (home / ".gitconfig").symlink_to(root / "dot-gitconfig")
        (root / "dot-gitconfig").write_text(f"[include]\n\tpath = {root}/git.inc\n")
        (root / "more.inc").write_text("mine")

        run = place.run("echo evil >more.inc; rm git.inc; echo evil >git.inc")

        assert "more.inc: Read-only file system" in run.stderr
        assert (root / "git.inc").is_symlink()


def test_folder_renamed_by_a_command_leaves_no_report_about_its_old_place() -> None:
    with world("bwrap") as place:
        (place.root / "pkg" / ".vscode").mkdir(parents=True)

        place.run("mv pkg pkg-2")

        [sentence] = place.put_back
        assert sentence.startswith(f"{place.root / 'pkg-2/.vscode'} makes other programs run")


def test_protected_files_are_found_again_among_too_many_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 11: a command could make so many folders that a search does not get to its files."""
    monkeypatch.setattr(policy_module, "_GIT_FOLDERS_MAX", 3)
    policy = _policy(tmp_path)
    root, module = tmp_path / "ws", tmp_path / "ws" / ".git" / "modules" / "lib"
    module.mkdir(parents=True)
    for folder in (root / ".git", module):
        (folder / "HEAD").touch()
    rules, before = policy.survey()
    module.parent.rename(root / ".git" / "moved")
    module.mkdir(parents=True)
    (module / "config").write_text(EVIL)
    for number in range(5):
        (module.parent / str(number)).mkdir()

    moved, warned = clean_up(before, policy.acting(before), tmp_path / "aside", rules.writable)

    assert moved.startswith(f"{module / 'config'} makes other programs run commands")
    assert warned.startswith(f"{root / '.git'} now has too many folders to search them all")


def test_more_folders_are_searched_where_a_command_made_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 11: a repository behind them would not be noticed."""
    root, policy = tmp_path / "ws", _policy(tmp_path)
    monkeypatch.setattr(policy._inside[0], "_directories_max", 4)
    rules, before = policy.survey()
    for number in range(9):
        (root / str(number)).mkdir()
    repository = root / "9" / "deep" / ".git"
    repository.mkdir(parents=True)
    (repository / "config").write_text(EVIL)
    (repository / "HEAD").touch()

    [sentence] = clean_up(before, policy.acting(before), tmp_path / "aside", rules.writable)
    assert sentence.startswith(f"{repository / 'config'} makes other programs run commands")

    for number in range(50):
        (root / f"more-{number}").mkdir()
    [sentence] = clean_up(before, policy.acting(before), tmp_path / "aside", rules.writable)
    assert sentence.startswith(f"{root} now has too many folders to search them all")


HIDDEN_CONFIGS = (
    "(seq 300000 | sed 's/^/# /'; echo '[core]'; echo 'fsmonitor = x') > $c",
    "mkfifo $c",
    "printf '[core]\nfsmonitor = x\n' > $c; ln -sf refs/heads/new new/.git/HEAD",
    "printf '[core]\nfsmonitor = x\n' > $c; rm new/.git/HEAD",
    "printf '[core]\nfsmonitor = x\n' > $c; mkdir -p {1..61}/.git",
)


def test_new_git_configuration_that_hides_from_the_check_is_moved_away() -> None:
    """Threat 11: too long, a pipe that is filled later, an unusual HEAD, among many others."""
    with world("bwrap") as place:
        left = place.root / "a" / "new" / ".git" / "config"
        for config in HIDDEN_CONFIGS:
            made = "mkdir a; git init -q a/new; ln -s a/new new"
            place.output(f"{made}; c=new/.git/config; rm $c; {config}")

            assert not left.exists() or left.read_text() == "[core]\n", config
            assert len(place.put_back) == 1, config
            (place.root / "new").unlink()
            shutil.rmtree(place.root / "a")


@each_row(("folder", "name"), [("g", "../.."), ("g/worktrees/.. ", "../.. ")])
def test_git_configuration_of_a_forged_worktree_is_moved_away(folder: str, name: str) -> None:
    """Threat 11: without HEAD, its folder looks like no repository; only git strips no blanks."""
    with world("bwrap") as place:
        place.output(
            f"mkdir -p w g/worktrees/x; git init -q --bare '{folder}'; rm '{folder}/HEAD';"
            f" printf '[core]\nfsmonitor = x\n' > '{folder}/config'; cd g/worktrees/x;"
            f" echo '{name}' > commondir; echo ref: refs/heads/m > HEAD; cd ../../..;"
            " echo gitdir: ../g/worktrees/x > w/.git"
        )

        assert (place.root / folder / "config").read_text() == "[core]\n"


def test_git_configuration_deep_among_many_repositories_stays() -> None:
    """Threat 11: only the first ones are mounted, and a command may make others before them."""
    with world("bwrap") as place:
        (place.root / "a").mkdir()
        git(place.root / "a", "init", "-q", "own")
        config = place.root / "a" / "own" / ".git" / "config"
        before = config.read_text()

        place.output("mkdir -p {1..61}/.git")
        place.output("printf '[core]\nfsmonitor = x\n' >> a/own/.git/config")

        assert config.read_text() == before


def test_pipes_named_like_files_that_are_read_delay_no_later_command() -> None:
    """Nothing reads them, and each command waits for the search for secrets."""
    with world("bwrap") as place:
        place.output(
            "mkfifo .npmrc; mkdir -p node_modules sub/.git; mkfifo node_modules/a.pem;"
            " mkfifo sub/.git/config sub/.git/HEAD"
        )

        assert place.output("echo later") == "later\n"


def test_a_clone_into_the_workspace_keeps_its_remote(tmp_path: Path) -> None:
    """The parts that a user needs keep working."""
    with world("bwrap") as place:
        output = place.output("git clone -q . copy && cd copy && git remote -v && git branch -vv")

        assert "origin" in output, output
        assert place.put_back == []
        git(place.root / "copy", "fetch")


def test_configuration_of_a_sparse_clone_stays_if_it_is_harmless() -> None:
    """`git clone --sparse` writes one for the working tree alone, read after the other one."""
    added = {"[pull]\n\tff = only\n": True, EVIL: False, '[remote "o"]\n\turl = x\n': False}
    with world("bwrap") as place:
        for number, (more, stays) in enumerate(added.items()):
            file = place.root / f"x{number}" / ".git" / "config.worktree"
            add = f"printf %s {shlex.quote(more)} >>{file}"
            place.run(f"git clone -q --sparse file://$PWD x{number}; {add}")

            assert file.exists() is stays, place.put_back
            assert len(place.put_back) == (not stays)


def test_a_worktree_made_by_a_command_stays() -> None:
    with world("bwrap") as place:
        output = place.output("git worktree add -q tree && git -C tree status")

        assert "On branch tree" in output, output
        assert place.put_back == []
        git(place.root / "tree", "status")


LINKS = (
    *("COMMIT_EDITMSG", "FETCH_HEAD", "index", "logs", "logs/HEAD", "logs/refs"),
    *("logs/refs/stash", "logs/refs/heads", "logs/refs/heads/main", "logs/refs/heads/f/a"),
    *("worktrees/tree/COMMIT_EDITMSG", "worktrees/tree/logs/HEAD", "modules/a/COMMIT_EDITMSG"),
)


def test_link_in_the_git_folder_that_leads_out_is_moved_away() -> None:
    """Threat 11: git writes through it, at the user's next commit to a start file of the shell."""
    with world("bwrap") as place:
        start = place.home / ".bashrc"
        git(place.root, "worktree", "add", "-q", "tree")
        git(place.root, "init", "-q", "--bare", ".git/modules/a")

        left: list[str] = []
        for name in LINKS:
            place.run(
                f"mkdir -p .git/{Path(name).parent}; rm -rf .git/{name}; ln -s {start} .git/{name};"
                " ln -sf HEAD .git/harmless; ln -sf ../../HEAD .git/worktrees/tree/harmless"
            )
            if os.path.lexists(place.root / ".git" / name) or len(place.put_back) != 1:
                left.append(name)

        assert left == []
        assert (place.root / ".git" / "harmless").is_symlink()
        assert (place.root / ".git" / "worktrees" / "tree" / "harmless").is_symlink()


ACTED_ON = (
    *("a.code-workspace", "web/a.code-workspace", "web/a.sublime-project", ".vimrc"),
    *(".devcontainer.json", "web/.Rprofile", ".project"),
    *(".pre-commit-config.yaml", "lefthook.yml", "web/lefthook-local.yml", "prek.toml"),
    *(".config/lefthook.toml", ".lefthook/pre-commit/x.sh", ".local-overcommit.yml"),
    *("mise.toml", "web/mise.local.toml", ".mise/conf.d/x.toml", "mise/config.toml"),
    *("web/.config/mise/config.toml", "mise.test.toml", "web/.envrc.local"),
    *(".direnv/flake-profile-a1.rc", "web/.direnv/nix-profile-a1.rc"),
    *(".hg/hgrc", "web/.hg/hgrc", "web/.hg/sharedpath", ".jj/workspace-config.toml"),
    *(".jj/repo/config.toml", "web/.jj/repo/config.toml", "api/.jj/repo"),
    *("mise/config.local.toml", "web/mise/config.test.toml", ".sl/config", "web/.sl/config"),
    *("web/_darcs/prefs/defaults", ".bzr/branch/branch.conf", ".lintstagedrc.json"),
)


@each_row("state", ["bwrap", "landlock"])
def test_settings_that_a_commit_or_an_opened_folder_acts_on_are_not_changed_by_a_command(
    state: State,
) -> None:
    """Threat 10: new ones are moved away, and those that were there stay as they were."""
    written = "; ".join(f"mkdir -p {Path(name).parent}; echo x > {name}" for name in ACTED_ON)
    with world(state) as place:
        place.run(written)
        assert [name for name in ACTED_ON if (place.root / name).exists()] == []
        assert place.put_back[-1].endswith("more like these")

        for file in map(place.root.joinpath, ACTED_ON):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("old")
        place.run(written)

        assert [name for name in ACTED_ON if (place.root / name).read_text() != "old"] == []


@each_row("state", ["bwrap", "landlock"])
def test_link_in_place_of_a_folder_of_version_control_is_moved_away(state: State) -> None:
    """Threat 10: its settings lie behind it, under any name."""
    with world(state) as place:
        place.run("mkdir -p web x/repo; echo x > x/repo/config.toml; ln -s ../x web/.jj")

        assert not (place.root / "web/.jj").is_symlink()
        assert len(place.put_back) == 1


def test_settings_of_programs_that_are_run_by_name_stay_the_projects() -> None:
    """As its Makefile; and direnv asks about a changed .envrc."""
    names = (".envrc", ".tool-versions", "package.json", ".npmrc", ".cargo/config.toml")
    with world("landlock") as place:
        place.run("; ".join(f"mkdir -p {Path(name).parent}; echo x > {name}" for name in names))

        assert [(place.root / name).read_text() for name in names] == ["x\n"] * len(names)
        assert not place.put_back


PAUSED = "export GIT_SEQUENCE_EDITOR='sed -i 1ibreak'; git rebase -q -i --root"


@each_row("state", ["bwrap", "landlock"])
@each_row("step", ["exec touch made", "  x\ttouch made"])
def test_program_among_the_steps_of_a_rebase_is_taken_out(state: State, step: str) -> None:
    """Threat 11: the user's next `git rebase --continue` would run it."""
    steps = ".git/rebase-merge/git-rebase-todo"
    with world(state) as place:
        git(place.root, "config", "user.name", "T")
        git(place.root, "config", "user.email", "t@example.com")
        place.run(f"{PAUSED}; echo '{step}' >>{steps}")
        assert "touch" not in (place.root / steps).read_text()
        assert len(place.put_back) == 1
        place.run(f"echo '{step}' >>{steps}")  # now it is there before
        assert len(place.put_back) == 1

        git(place.root, "rebase", "--continue")

        assert not (place.root / "made").exists()


def test_rebase_of_the_user_goes_on_in_a_command() -> None:
    """Its programs are the user's own, and git takes each step away."""
    with world("bwrap") as place:
        git(place.root, "config", "user.name", "T")
        git(place.root, "config", "user.email", "t@example.com")
        user = f"{PAUSED} -x 'touch made' -x 'touch more'"
        subprocess.run(["bash", "-c", user], cwd=place.root, check=True)

        place.run("git rebase --edit-todo; git rebase --continue")

        assert place.put_back == []
        assert (place.root / "made").exists()


def test_submodule_made_by_a_command_stays() -> None:
    """Its configuration names its working tree, whose `.git` names it."""
    with world("bwrap") as place:
        output = place.output(
            'git -c protocol.file.allow=always submodule add -q "$PWD" lib && git -C lib status'
        )

        assert "nothing to commit" in output, output
        assert "worktree = ../../../lib" in (place.root / ".git/modules/lib/config").read_text()
        assert place.put_back == []


def test_submodule_moved_by_a_command_stays() -> None:
    """Its configuration names another working tree then, whose `.git` leads back as before."""
    with world("landlock") as place:
        git(
            place.root,
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "add",
            "-q",
            str(place.root),
            "lib",
        )

        output = place.output("git mv lib moved && git -C moved status")

        assert "nothing to commit" in output, output
        assert place.put_back == []
        git(place.root / "moved", "status")


@each_row(("state", "folder"), [("bwrap", "new"), ("landlock", "new"), ("landlock", ".")])
def test_command_cannot_lead_git_to_a_working_tree_elsewhere(state: State, folder: str) -> None:
    """Threat 11: the user's next `git checkout .` would write `.bashrc` at home."""
    with world(state) as place:
        place.run(
            f"git init -q new; cd {folder}; git config core.worktree {place.home};"
            f" git config core.bare false; git config core.worktree '{place.home}' x"
        )

        config = (place.root / folder / ".git" / "config").read_text()
        assert "worktree" not in config
        assert "bare = false" in config
        assert len(place.put_back) == 1


def test_editor_settings_in_subfolders_are_read_only_and_new_ones_moved_away() -> None:
    """Threat 10: a subfolder of the repository may be opened as a separate project."""
    with world("bwrap") as place:
        there = place.root / "web" / ".vscode"
        there.mkdir(parents=True)

        output = place.output(
            "echo x > web/.vscode/tasks.json; mkdir -p api/.vscode; echo x > api/.vscode/tasks.json"
        )

        assert "web/.vscode/tasks.json: Read-only file system" in output
        assert list(there.iterdir()) == []
        assert not (place.root / "api" / ".vscode").exists()
        [sentence] = place.put_back
        moved = Path(sentence.rpartition(" moved to ")[2])
        assert (moved / "tasks.json").read_text() == "x\n"


@each_row(
    ("text", "kept"),
    [
        ('[remote "origin"]\n\turl = x\n\tfetch = +y\n', None),
        ("[core]\n\tbare = false\n# note\n; note\n\n", None),
        ("[commit]\n\tgpgsign = false\n[tag]\n\tgpgSign = false\n", None),
        ("[user]\n\tsigningkey = a\n[lfs]\n\trepositoryformatversion = 0\n", None),
        ("[merge]\n\tconflictstyle = diff3\n[rerere]\n\tenabled = true\n", None),
        ("[gpg]\n\tprogram = x\n[commit]\n\ttemplate = x\n", "[gpg]\n[commit]\n"),
        ('[merge "x"]\n\tdriver = x\n[diff "x"]\n\ttextconv = x\n', '[merge "x"]\n[diff "x"]\n'),
        (EVIL, "[core]\n"),
        ("[core] fsmonitor = x\n", ""),
        ("[core]\n\tbare = false \\\n\tfsmonitor = x\n", "[core]\n"),
        ("[core]\n\tbare = false\\\\\\\n\tfsmonitor = x\n", "[core]\n"),
        ("[CORE]\r\n\tFSMonitor = x\r\n\tBare = true\r\n", "[CORE]\r\n\tBare = true\r\n"),
        ("[include]\n\tpath = evil\n", "[include]\n"),
        ('[includeIf "gitdir:/"]\n\tpath = evil\n', '[includeIf "gitdir:/"]\n'),
        ("[alias]\n\tst = !x\n[user]\n\tname = n\n", "[alias]\n[user]\n\tname = n\n"),
        ('[remote "o"]\n\tuploadpack = x\n', '[remote "o"]\n'),
        ('[core "x"]\n\u2028\tfsmonitor = x\n', '[core "x"]\n'),
        ("[core]\x0cfsmonitor = x\n\tbare = true\n", ""),
        ("\ufeff[core]\n\tbare = true\n", ""),
        ("[core]\n\tworktree = /\n\tbare = true\n", "[core]\n\tbare = true\n"),
    ],
)
def test_only_harmless_git_configuration_is_kept(text: str, kept: str | None) -> None:
    assert harmless(text) == (text if kept is None else kept)


def test_spaces_in_a_value_of_git_configuration_do_not_hold_us_up() -> None:
    """Looking for a comment from each space on would take hours."""
    text = f"[core]\n\tfilemode = a{' ' * 1_000_000}b\n"

    assert harmless(text) == text


@pytest.mark.parametrize("is_link", [False, True])
def test_pointer_to_a_folder_outside_is_moved_away_and_that_folder_left_alone(
    tmp_path: Path, *, is_link: bool
) -> None:
    """Threat 11: a command may name any folder, for example ~/.ssh, which has a `config` too."""
    outside, pointer = tmp_path / "home" / ".ssh", tmp_path / "ws" / "x" / ".git"
    for folder in (outside, pointer.parent):
        folder.mkdir(parents=True)
    (outside / "config").write_text(EVIL)
    policy = _policy(tmp_path)
    rules, before = policy.survey()
    if is_link:
        pointer.symlink_to(outside)
    else:
        pointer.write_text(f"gitdir: {outside}\n")

    [sentence] = clean_up(before, policy.acting(before), tmp_path / "aside", rules.writable)

    assert sentence.startswith(f"{pointer} makes other programs run commands, so it was moved")
    assert not os.path.lexists(pointer)
    assert (outside / "config").read_text() == EVIL


def test_pointer_with_a_nul_character_is_read_as_git_reads_it(tmp_path: Path) -> None:
    """Threat 11: an error would leave everything in place that the command made."""
    inner, pointer = tmp_path / "ws" / "inner", tmp_path / "ws" / "x" / ".git"
    policy = _policy(tmp_path)
    for folder in (inner, pointer.parent):
        folder.mkdir(parents=True)
    rules, before = policy.survey()
    (inner / "config").write_text(EVIL)
    pointer.write_bytes(b"gitdir: ../inner\0rest\n")

    [sentence] = clean_up(before, policy.acting(before), tmp_path / "aside", rules.writable)

    assert sentence.startswith(f"{inner / 'config'} makes other programs run commands")
    assert (inner / "config").read_text() == "[core]\n"


def _policy(base: Path) -> SandboxPolicy:
    home, workspace = base / "home", base / "ws"
    workspace.mkdir(exist_ok=True)
    return SandboxPolicy([workspace], home=home, own=(), is_secret=lambda _path: False)


def test_files_moved_aside_keep_their_name_and_content(tmp_path: Path) -> None:
    first, second = tmp_path / "a" / "x", tmp_path / "b" / "x"
    for path in (first, second):
        path.parent.mkdir()
    first.symlink_to("nowhere")
    second.write_text("mine")

    moved = [move_aside(path, tmp_path / "aside") for path in (first, second)]

    assert moved[0].is_symlink()
    assert moved[1].read_text() == "mine"
    assert moved[0].parent != moved[1].parent
    assert not first.is_symlink()


def test_many_hooks_are_moved_away_as_one_folder(tmp_path: Path) -> None:
    """Each had a folder of its own, which took hours for a hundred thousand of them."""
    hooks = tmp_path / "ws" / "new" / ".git" / "hooks"
    policy = _policy(tmp_path)
    rules, before = policy.survey()
    hooks.mkdir(parents=True)
    (hooks.parent / "HEAD").touch()
    for number in range(100):
        (hooks / str(number)).touch()

    [sentence] = clean_up(before, policy.acting(before), tmp_path / "aside", rules.writable)

    assert sentence.startswith(f"{hooks} makes other programs run commands")
    assert not hooks.exists()


def test_result_of_a_command_names_the_first_moved_files_only() -> None:
    with world("bwrap") as place:
        place.run("mkdir -p {10..60}/.vscode")

        assert len(place.put_back) == 21
        assert place.put_back[0].startswith(f"{place.root / '60/.vscode'} makes other programs")
        assert place.put_back[-1] == "and 31 more like these"
        assert not [*place.root.glob("*/.vscode")]


def test_nothing_is_copied_to_another_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command can make a file of terabytes that takes no room until it is copied."""
    inner, outer = tmp_path / "ws" / "x" / ".vscode" / "y" / ".idea", tmp_path / "ws" / "x"
    policy = _policy(tmp_path)
    rules, before = policy.survey()
    inner.mkdir(parents=True)
    with (inner / "large").open("wb") as file:
        file.truncate(1 << 40)
    keep_aside_on_another_disk(monkeypatch)

    sentences = [*clean_up(before, policy.acting(before), tmp_path / "aside", rules.writable)]

    assert [*(tmp_path / "aside").iterdir()] == []
    [moved] = outer.iterdir()
    assert moved.name.startswith(".vscode.moved-")
    [moved_within] = (moved / "y").iterdir()
    assert moved_within.name.startswith(".idea.moved-")
    assert (moved_within / "large").stat().st_size == 1 << 40
    assert sentences[0].endswith(f"so it was moved to {inner.with_name(moved_within.name)}")
    assert sentences[1].endswith(f"so it was moved to {moved}")


def test_no_file_is_moved_aside_through_a_folder_swapped_for_a_link(tmp_path: Path) -> None:
    """Threat 3: a background command swaps the folder for a link into the home directory."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".vscode").mkdir()
    (tmp_path / "sub").symlink_to("home")

    with pytest.raises(OSError):
        move_aside(tmp_path / "sub" / ".vscode", tmp_path / "aside")

    assert (tmp_path / "home" / ".vscode").is_dir()
    assert list((tmp_path / "aside").iterdir()) == []


def test_files_moved_aside_are_deleted_after_a_month(tmp_path: Path) -> None:
    """Users do not empty that folder, and newer files may still be needed."""
    old, new = tmp_path / "moved" / "old", tmp_path / "moved" / "new"
    outside = tmp_path / "outside"
    for folder in (old, new, outside):
        folder.mkdir(parents=True)
        (folder / "config").write_text("x")
    (old / "link").symlink_to(outside)
    long_ago = time.time() - 31 * 24 * 3600
    for path in (old, outside):
        os.utime(path, (long_ago, long_ago))
    (tmp_path / "moved" / "link").symlink_to(outside)

    forget_old(tmp_path / "moved")
    forget_old(tmp_path / "nothing")

    assert {path.name for path in (tmp_path / "moved").iterdir()} == {"new", "link"}
    assert (outside / "config").exists()
