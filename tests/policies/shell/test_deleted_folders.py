"""Where a script deletes: by links, by what it moved, and by whole paths."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent_cli.policies.shell import CommandRules, Reach, judge
from tests.tables import each_row

ROOT = Path("/nowhere/here")


def asks(script: str, root: Path = ROOT, *opened: Path) -> bool:
    """Return whether *script* asks in every mode, with the further folders *opened*."""
    return judge(script, CommandRules(), Reach(root=root, extra_dirs=opened)).verdict == "ask"


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A workspace with a link `out`, and a link `-x/out`, to a folder outside."""
    root = tmp_path / "workspace"
    for folder in ("workspace/-x", "outside/share"):
        (tmp_path / folder).mkdir(parents=True)
    for link in ("out", "-x/out"):
        (root / link).symlink_to(tmp_path / "outside")
    return root


def test_deleting_behind_a_link_asks_also_where_that_was_moved_first(linked: Path) -> None:
    """Threat 19: the link is looked up where it lies before the script."""
    asking = [
        "mv out y; rm -rf y/share",
        "mv out y && mv y z && rm -rf z/share",
        "cp -a out y && rm -rf y/share",
        "mkdir y; mv out y; rm -rf y/out/share",
        "mv ./out ./y; rm -rf ./y/share",
        "mv out y; rm -rf y/",
        "mv out y && cd y && rm -rf share",
        "ln -s / b && mv b c && rm -rf c/etc",
        "rm -r -- -x/out/share",
        f"cd /usr; rm -rf {linked}/out/share",
    ]
    others = [
        "mv out y; rm -rf y",
        "mv src lib; rm -rf lib/x",
        "mv a b; mv b a; rm -rf a/x b/y",
        "rm -r -- -x/src",
    ]

    assert [each for each in (*asking, *others) if asks(each, linked)] == asking


@each_row(
    "before",
    ["", " ", "\t", "\n\n", "  \n "],
)
def test_blanks_before_a_script_hide_no_link(before: str, linked: Path) -> None:
    """The parser's tree begins at the first word, and its positions at the script's beginning."""
    opened = linked.parent / "opened"
    opened.mkdir(exist_ok=True)
    link = opened / "out"
    if not link.is_symlink():
        link.symlink_to("/usr")

    assert asks(f"{before}rm -rf out/*", linked)
    assert asks(f"{before}eval 'rm -rf out/*'", linked)
    assert asks(f"{before}cd {opened} && rm -rf out/*", linked, opened)
    assert asks(f"cd {opened} &&{before}rm -rf out/*", linked, opened)


@each_row(
    ("script", "is_asked"),
    [
        (f"cd /usr/share && ls && rm -rf {ROOT}/build", False),
        (f"cd $D; rm -rf {ROOT}/build", False),
        ("cd /usr/share && rm -rf build", True),
        (f"cd /usr; rm -rf {ROOT}/build share", True),
        (f"chroot /mnt rm -rf {ROOT}/build", True),
        (f"nsenter -t 1 -m --wd=/ rm -rf {ROOT}/build", True),
        (f"bwrap --bind / {ROOT} rm -rf {ROOT}/home", True),
        (f"rm -rf {ROOT}/../other", True),
        (f"rm -rf {ROOT}/a/../../other", True),
        (f"find {ROOT}/../other -delete", True),
        (f"cd /usr; rm -rf {ROOT}", True),
    ],
)
def test_whole_path_in_the_workspace_may_be_deleted_from_anywhere(
    script: str, *, is_asked: bool
) -> None:
    """Threat 19: it does not depend on the folder, unless it leads up again."""
    assert asks(script) is is_asked


def test_folder_in_an_added_directory_may_be_deleted(linked: Path) -> None:
    """As in the workspace: by its whole path, or behind a `cd` to that directory."""
    added = linked.parent / "added"
    (added / "sub").mkdir(parents=True)
    (added / "away").symlink_to("/")
    (added / "back").symlink_to(linked)
    inside = [
        f"rm -rf {added}/build",
        f"make && rm -rf {added}/sub/x {added}/y",
        f"cd {added} && rm -rf build && make",
        f"cd '{added}' && ls *.log | xargs rm",
        f"cd {added}/sub && find . -name __pycache__ -exec rm -rf {{}} +",
        "cd ../added && rm -rf build; make 2>&1",
        *(f"rm -rf build {added}/build", f"rm -rf {added}/build -- dist; rm -f {added}/x x.log"),
        *(f"find {added} -name '*.pyc' -delete", f"find {added}/sub -name x | wc -l"),
        *("rm -rf ../added/build dist", "rm -rf ../added/sub/", "find ../added -name x -delete"),
        *(f"for d in a b; do rm -rf {added}/$d; done", f"D={added}; rm -rf $D/x x"),
        f"find {added} -name __pycache__ -exec rm -rf {{}} +; find . -name x -exec rm -rf {{}} +",
        f"python -c \"shutil.rmtree('{added}/build'); shutil.rmtree('build')\"",
    ]
    asking = [
        *(f"rm -rf {added}", f"rm -rf {added}/*", f"rm -rf {added}/.git"),
        *(f"rm -rf {added}/../workspace", f"rm -rf {added}/away/etc", f"rm -rf {added}/back/"),
        *(f"rm -rf {added}/x $y", f"rm -rf {added}/x; rm -rf out/share"),
        *(f"ln -s / {added}/l; rm -rf {added}/l/etc", f"mv out {added}; rm -rf {added}/out/x"),
        *(f"rm -rf {added}/x; truncate -s 1 -- a", f"rm -rf {added}/x; ls | xargs rm"),
        *(f"rm -rf {added}/x; echo 'rm -rf out/x' | sh", f"rm -rf {added}/x; cd out; rm -r share"),
        *(f"cd {added}; rm -rf out/share", f"cd {added} && rm -rf x & rm -rf out/share"),
        *(f"cd {added} && rm -rf .", f"cd {added} && rm -rf ../workspace"),
        *(f"cd {added} && cd - && rm -rf out/share", f"cd {added} && rm -rf away/etc"),
        *(f"cd {added}/away && rm -rf etc", f"cd {added} && env -C / rm -rf etc"),
        *(f"cd {added}/none && rm -rf x", f"cd {added} && git reset --hard"),
        f"cd {added} && rm -rf {linked}/out/share",
        *(f"rm -rf build {added}", f"rm -rf .git {added}/x", f"rm -rf out/share {added}/x"),
        *(f"rm -rf $x {added}/x", f"rm -rf x {added}/away/etc", f"rm -rf {added}/x /srv/x"),
        *(f"find {added} -delete", f"find {added} . -delete", f"find {added} / -name x -delete"),
        f"find {added} -name x -exec rm -rf {{}} /etc \\;",
        f"find / -name x -exec rm -rf {{}} +; find {added} -name x -exec rm -rf {{}} +",
        f"find {added} -name x -exec rm -rf {{}} +; find / -name x -exec rm -rf {{}} +",
        *(f"find -L {added} -name x -delete", "find ../added/away/ -name x -delete"),
        *(f"rm -f {added}/x ~/.bashrc", "rm -rf ../added", "rm -rf ../added/../workspace"),
        *("rm -rf ../added/away/../x", "rm -rf ../added/away/etc", "rm -rf ../other/x"),
        *("cd src; rm -rf ../added/x", "env -C src rm -rf ../added/x", "rm -rf ../added/.git"),
    ]

    found = [each for each in (*inside, *asking) if asks(each, linked, added)]

    assert found == asking


@each_row(
    ("script", "is_asked"),
    [
        *((f"find {ROOT} -name '*.pyc' -delete", False), (f"find {ROOT}/ -delete", True)),
        *(
            (f"find {ROOT} -name x | xargs rm", False),
            (f"find {ROOT.parent} -name x -delete", True),
        ),
        (f"find {ROOT} -name __pycache__ -exec rm -rf {{}} +", False),
        *(("find $x -name '*.o' -exec rm {} +", False), ("find ~ -name a -exec wc {} +", False)),
    ],
)
def test_find_in_the_workspace_by_its_whole_path_is_judged_as_here(
    script: str, *, is_asked: bool
) -> None:
    """Models name folders by whole paths."""
    assert asks(script) is is_asked


@each_row(
    "script",
    [
        *('cd "$x"; rm -rf ../added/x', "cd && rm -rf ../added/x", "popd; rm -rf ../added/x"),
        *('f() { cd "$1"; }; f src; rm -rf ../added/x', 'cd "$x"; find ../added -name x -delete'),
        *("pnpm -C src exec rm -rf ../added/x", "uv run --directory src rm -rf ../added/x"),
        *("docker run x rm -rf ../added/x", "ssh host 'rm -rf ../added/x'"),
        *("git submodule foreach 'rm -rf ../added/x'", "su - -c 'rm -rf ../added/x'"),
        "rm -rf ../added/x && pnpm -r exec rm -rf ../added/x",
        "python -c \"os.chdir('src'); shutil.rmtree('../added/x')\"",
    ],
)
def test_folder_beside_the_workspace_asks_where_another_one_may_be_meant(
    script: str, linked: Path
) -> None:
    """A `../x` leads elsewhere in another folder, and what programs start may run in one."""
    assert asks(script, linked, linked.parent / "added")


def test_workspace_in_an_added_directory_may_not_be_deleted(linked: Path) -> None:
    """With `--add-dir ..` it is a folder of that directory."""
    scripts = ["cd .. && rm -rf workspace", f"rm -rf {linked}", f"cd {linked.parent} && rm -rf *"]

    assert [each for each in scripts if asks(each, linked, linked.parent)] == scripts


_HOME = "/nowhere/me"
_AT_HOME = Reach(root=Path(_HOME, "here"), extra_dirs=(Path(_HOME, "more", "added"),), home=_HOME)


@each_row(
    "script",
    [
        *("cd ~/here && rm -f x", "cd ~/here; rm -f x", "cd $HOME/here/src && rm a.o && make"),
        *("rm -rf ~/here/build", 'rm -rf "$HOME/here/build"', "rm -f ${HOME}/here/x ./y"),
        *("find ~/here -name '*.pyc' -delete", "D=~/here/build; rm -rf $D", "(cd ~/here; rm x)"),
        *("rm -rf ~/here/{build,dist}", "cd ~/here && rm -rf build && cd ~/here/src && rm x"),
        *("rm -rf ~/more/added/build", "cd ~/more/added; rm x"),
        "rm ä ~/here/ä",
        *("cd ~/here && find . -name '*.pyc' -delete", "cp -r a . && rm -f ~/here/x"),
    ],
)
def test_workspace_may_be_named_from_the_home(script: str) -> None:
    """Where the home is known, `~/here` is as good as the whole path."""
    assert judge(script, CommandRules(), _AT_HOME).verdict == "undecided"
    assert judge(script, CommandRules(), replace(_AT_HOME, home="")).verdict == "ask"
    assert judge(script, CommandRules(), replace(_AT_HOME, home="/nowhere")).verdict == "ask"


@each_row(
    "script",
    [
        *("rm -rf ~", "rm -rf ~/here", "rm -rf ~/here/", "rm -rf ~/here/*", "rm -rf ~/here/.git"),
        *("rm -rf ~/here-too/x", "rm -rf ~/here.old", "rm -rf ~/here*/x", "rm -rf ~/hereafter/x"),
        *("rm -rf ~/here/../x", "cd ~/here/.. && rm -rf x", "cd ~/here/..; rm x"),
        "rm ~/x ~/here/y",
        *('rm -rf ~/here" too"/x', "rm -rf ~/here\\ too/x", "rm -rf ~/here{,-too}"),
        *("rm -rf x~/../y", "rm -rf ~u/here/x", "cd ~/more && rm -rf x", "rm -rf ~/more/added"),
        *("rm ~/here/../x", "mv ~/here/.git ~/here/old && rm -rf ~/here/old", "rm -rf ~/here/$X"),
        *("cd ~/here && rm -rf *", "rm -rf ~/here$X/a", "rm -rf '~/here/x' ~/x"),
        # There, the home is or may be another one.
        *("HOME=/srv; rm -rf ~/here/x", "HOME=/srv bash -c 'rm -rf ~/here/x'"),
        "read HOME; rm ~/here/x",
        *("sudo sh -c 'rm -rf ~/here/x'", "ssh h 'rm -rf ~/here/x'", "su -c 'rm -rf ~/here/x'"),
        *("docker exec c sh -c 'rm -rf ~/here/x'", "multipass exec v -- sh -c 'rm -rf ~/here/x'"),
        *("export H{,OM}E=/srv; rm -rf ~/here/x", ". x; rm -rf ~/here/x", "eval $X; rm ~/here/x"),
        *("\\. x; rm -rf ~/here/x", "command -p . x; rm -f ~/here/x", "'.' x && rm ~/here/x"),
        *('printf -v "$X" /srv; rm -rf ~/here/x', "unset HOME; rm -rf $HOME/here/x"),
        *("IFS=n; rm -rf $HOME/here/x", "for HOME in /srv; do rm -rf ~/here/x; done"),
        *("env -i bash -c 'rm -rf ~/here/x'", "vagrant ssh -c 'rm -rf ~/here/x'"),
        "ssh h <<E\nrm -rf $HOME/here/x\nE",
        *("rea\\d HO\\ME < f; rm -rf ~/here/x", "'read' H\"\"OME < f; rm ~/here/x"),
        *("r$'ea'd H$'OM'E < f; rm ~/here/x", "e{xport,} HO{ME,}=/srv; rm -rf ~/here/x"),
        *("a=.; $a ./x; rm -rf ~/here/x", "a='. ./x'; $a; rm -rf ~/here/x"),
        *("a=.; command $a ./x; rm -rf ~/here/x", 'bash -c "cd $HOME/here; rm x"'),
        *("mosh h -- rm -rf ~/here/x", "lxc exec c -- rm -rf ~/here/x"),
        "flatpak-spawn --host rm -rf ~/here/x",
    ],
)
def test_other_folders_of_the_home_ask_and_those_of_another_home(script: str) -> None:
    """Threat 19: nothing but the workspace itself is meant."""
    assert judge(script, CommandRules(), _AT_HOME).verdict == "ask"


def test_path_of_the_workspace_is_put_in_for_the_home_alone() -> None:
    """In a heredoc, the commands of backquotes are shorter than their text, by any number."""
    scripts = [
        "cat <<E\n`" + "\\\\" * count + "`\nE\nrm -rf /srvv/here/x; echo $HOME/a"
        for count in range(30)
    ]
    assert [
        each for each in scripts if judge(each, CommandRules(), _AT_HOME).verdict != "ask"
    ] == []
