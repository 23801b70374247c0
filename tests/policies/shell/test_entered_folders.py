"""What a script deletes in a folder that it enters, also one that it feeds, or writes and runs."""

from pathlib import Path

from agent_cli.policies.shell import CommandRules, Reach, judge
from tests.tables import each_row


def asks(script: str, root: Path = Path("/nowhere/here")) -> bool:
    """Return whether *script* asks in every mode."""
    return judge(script, CommandRules(), Reach(root=root)).verdict == "ask"


@each_row(
    "script",
    [
        *("cd /etc; rm hosts", "cd /etc\nrm hosts", "cd /etc || exit 1\nrm hosts", "cd; rm x"),
        *('cd "/etc"; rm hosts', "set -e\ncd /etc\nrm hosts", "(cd /etc; rm hosts)", "cd ~; rm x"),
        *("{ cd /etc; rm hosts; }", "bash -c 'cd /etc; rm hosts'", "sudo sh -c 'cd /etc; rm x'"),
        *("ls && cd /etc && rm x", "if true; then cd /etc; rm x; fi", "f() { cd /etc; rm x; }; f"),
        *("pushd /etc; rm x", "cd -- /etc && rm x", "cd /etc/ssh && cd .. && rm x", "cd ..; rm x"),
        *(
            "D=/etc; cd $D; rm x",
            'cd "$HOME"/a && rm x',
            "cd /etc; timeout 5 rm x",
            "cd /etc; rm {a,b}",
        ),
        *(
            "cd /etc; sudo rm -- x *.conf",
            "cd /srv 2>/dev/null; unlink x",
            "cd /etc; bash -c 'rm x'",
        ),
        *(
            "cd /etc; find . -name '*.conf' -delete",
            "cd /srv; cd a; rm x",
            "bash <<'E'\ncd /srv\nrm x\nE",
        ),
        "trap 'cd /etc; rm x' EXIT",
        *("cd ..; (cd /tmp && ls); rm -rf build", "(cd ~/x && rm -rf build)"),
        *("cd ~/x & cd ~/y; rm -rf build", "(cd ~/x; ln -s ~ y); rm -rf y/build"),
        *("f() { rm -rf home; }; (cd / && f)", "f() { rm -rf home; }; cd / && f & rm x"),
        *("al\\ias f='rm -rf home'\n(cd /; f)", "echo 'rm -rf home' > /tmp/s; (cd / && /tmp/s)"),
        "printf 'x:\n\trm -rf home' > /tmp/Makefile; (cd / && make -f /tmp/Makefile)",
        "git config --global alias.z '!rm -rf home'; (cd / && git z)",
        *("(cd / && rimraf home); rm x", "(cd / && srm -r home); rm x"),
        *("cd / && npx rimraf home & rm x", "(ls; (cd /; rimraf home)); rm x"),
        *("cd /srv && rm x & ls", "(cd /srv; rm x) &", "cd /etc; rm hosts & ls"),
        *("cd src && cd ../.. && rm x", "cd a && cd .. && cd .. && rm -f x"),
        *("cd src; rm ../../x", "eval 'cd /etc; rm x'", "cd /srv; find -name x -exec rm {} +"),
    ],
)
def test_deleting_a_file_in_a_folder_that_was_entered_asks(script: str) -> None:
    """Threat 19: `cd /etc; rm hosts` is `rm /etc/hosts`, however the two are joined."""
    assert asks(script)


@each_row(
    "script",
    [
        *("(cd /srv; ls); rm x", "x=$(cd /srv; pwd); rm x", "cd /srv | cat; rm x", "rm x; cd /srv"),
        *("cd /srv; cd -; rm x", "pushd /srv; ls; popd; rm x", "cd /srv; cd /nowhere/here; rm x"),
        *("cd /tmp/a; rm x", "cd $X; rm y", 'cd "$(mktemp -d)"; rm y', "cd /srv; rm /tmp/x"),
        *("cd /srv; rm /nowhere/here/x", "cd /srv; git rm x", "cd /srv; find . -name x"),
        *("echo 'cd /srv; rm x'", "git commit -m 'cd /srv; rm x'", "cd ..; cd here; rm x"),
        *("cd ~/.cache/x; rm y", "cd /run/lock; rm x", "cd src; rm ../a.o; cd ..; rm b"),
        *("docker exec c sh -c 'cd /app; rm x'", "f() { cd /srv; }; rm x"),
        # The parser takes the list for a part of the pipeline.
        # In the background, it is the folder of a shell of its own.
        *("cd / & rm -rf build", "(cd ~/x && git pull); rm -rf build"),
        "(cd ~/x && git pull) 2>&1 >/dev/null; rm -rf build",
        *("cd ../x && npm start & rm -rf dist", "ls; (cd /srv); rm -rf a; (cd b)"),
        *("cd /srv & rm x", "cd /srv &\nrm x; ls", "cd /srv && ls & rm x"),
        *("cd a/b && make 2>&1 | tail && cd ../.. && rm x", "cd a && ls 2>&1 | wc; cd ..; rm x"),
    ],
)
def test_deleting_a_file_in_no_folder_outside_asks_not(script: str) -> None:
    """Behind a subshell and a way back, the folder is the former one."""
    assert not asks(script)


def test_file_of_an_added_directory_may_be_deleted_however_that_is_entered() -> None:
    """As by `&&`: it is a folder like the workspace."""
    reach = Reach(root=Path("/nowhere/here"), extra_dirs=(Path("/nowhere/added"),))
    scripts = {
        "cd /nowhere/added; rm x": "undecided",
        "cd /nowhere/added/a\nrm x ../y": "undecided",
        "cd ../added; rm x": "undecided",
        "cd /nowhere/added; rm ../x": "ask",
    }

    assert {each: judge(each, CommandRules(), reach).verdict for each in scripts} == scripts


@each_row(
    "script",
    [
        *(
            "cd build || exit 1; rm -rf *",
            "cd build || exit\nrm -rf *\ncmake ..",
            "set -e\ncd a\nrm -rf *",
        ),
        *('cd "a/b" || exit 1\nrm -rf ./* && make; ls', "set -euo pipefail; cd build; rm -rf *"),
        *(
            "cd /tmp/added || exit 1; rm -f x",
            "cd build && rm -rf *",
            "set -e; cd a && rm -rf *; ls",
        ),
    ],
)
def test_folder_that_is_surely_entered_is_known_as_by_and(script: str) -> None:
    """Where the script ends unless the folder is entered, all of it runs there."""
    assert not asks(script)


@each_row(
    "script",
    [
        *(
            "cd build; rm -rf *",
            "cd build\nrm -rf *",
            "cd build || true; rm -rf *",
            "cd a|cat; rm -rf *",
        ),
        *(
            "cd build || exit 1 & rm -rf *",
            "cd build || exit 1; cd .. && rm -rf *",
            "set -x; cd a; rm -rf *",
        ),
        *("cd .. || exit; rm -rf *", "cd / || exit; rm -rf *", "cd . || exit; rm -rf *"),
        *("cd - || exit; rm -rf *", "cd $X || exit; rm -rf *", "cd a || exit; popd; rm -rf *"),
        *(
            "cd a || exit; env -C / rm -rf *",
            "cd a || exit; bash -c 'cd /; rm -rf *'",
            "cd a || (exit); rm -rf *",
        ),
        *(
            'cd a || exit; eval "$x"; rm -rf *',
            "cd a || exit; . x; rm -rf *",
            "ls; cd a || exit; rm -rf *",
        ),
        *(
            "(cd a || exit); rm -rf *",
            "exit() { :; }; cd a || exit; rm -rf *",
            "cd a || return; rm -rf *",
        ),
        # bash goes on where `cd` is not the last one of those joined by `&&`.
        *("set -e; cd a && ls; rm -rf *", "set -e\ncd a && make || true\nrm -rf *"),
        *("set -e; cd a &&\nls\nrm -rf ./*", "set -e; cd a && ls & rm -rf *"),
        *("set -e; cd a || true; rm -rf *", "set +e; cd a; rm -rf *", "set -e; (cd a); rm -rf *"),
        *(
            "! cd a || exit; rm -rf *",
            "cd a || exit; shopt -s dotglob; rm -rf *",
            "cd a || exit; rm -rf ../*",
        ),
        *(
            "cd a || exit; rm -rf .*",
            "cd a || exit; builtin cd ..; rm -rf *",
            "cd /srv || exit; rm -rf *",
        ),
    ],
)
def test_folder_that_is_perhaps_not_entered_asks(script: str) -> None:
    """Threat 19: what was meant for it would be lost here."""
    assert asks(script)


@each_row(
    "script",
    [
        *("cat > s.sh <<'E'\ncd /etc\nrm x\nE\nbash s.sh", "echo 'cd /etc; rm x' > s; sh ./s"),
        *("tee s.sh <<'E'\ncd ~/a\nrm x\nE\nbash s.sh", "cat > s <<E\ncd /etc && rm x\nE\n. s"),
        *(
            "printf 'cd /etc\\nrm x\\n' | sh",
            "bash <(echo 'cd /etc; rm x')",
            "sh <<< 'cd /etc; rm x'",
        ),
        *("echo 'cd ..; rm x' | bash", "cat > s.sh <<'E'\ncd src && cd ../..\nrm x\nE\nbash s.sh"),
        "python -c \"import os; os.system('cd /etc; rm x')\"",
        "cat > s.py <<'E'\nimport os\nos.system('cd /etc; rm x')\nE\npython s.py",
        'cat > a/s.sh <<\'E\'\ncd "$(dirname "$0")/../.."\nrm x\nE\nbash a/s.sh',
    ],
)
def test_deleting_in_a_folder_that_a_fed_or_written_script_enters_asks(script: str) -> None:
    """Threat 19: the text runs as the command itself would."""
    assert asks(script)


@each_row(
    "script",
    [
        *("cat > s.sh <<'E'\ncd /etc\nrm x\nE\nchmod +x s.sh", "echo 'cd /etc; rm x' > notes; ls"),
        *("cat > s.sh <<'E'\ncd src\nrm x\nE\nbash s.sh", "echo 'cd a; rm x' | bash"),
        *("ssh h <<'E'\ncd /srv\nrm x\nE", "adb shell <<'E'\ncd /sdcard\nrm x.png\nE"),
        'cat > a/s.sh <<\'E\'\ncd "$(dirname "$0")/.."\nrm x\nE\nbash a/s.sh',
        # A script often goes first to the folder above its own.
        'cat > a/s <<\'E\'\n#!/bin/sh\nset -eu\ncd "$(dirname "$0")/.."\nrm -rf x\nE\nsh a/s',
        *("cd a/.. && rm -rf build", "cd a/b/../..; rm -rf build"),
    ],
)
def test_deleting_in_the_workspace_by_a_script_that_enters_a_folder_asks_not(script: str) -> None:
    """A folder and the way back from it lead nowhere else."""
    assert not asks(script)


_ABOVE_ITS_OWN = 'cat > a/s.sh <<\'E\'\ncd "$(dirname "$0")/.."\nrm -rf x\nE\n'


@each_row(
    "run",
    [
        *("mv a/s.sh s.sh && bash s.sh", "cp a/s.sh s.sh; ./s.sh", "ln -s a/s.sh s; bash s"),
        *("install -m755 a/s.sh s; ./s", "cp a/s.sh /srv/b/s.sh; bash /srv/b/s.sh"),
        *(
            "source a/s.sh",
            ". a/s.sh",
            "bash -c '. a/s.sh'",
            "bash s.sh; cp a/s.sh s.sh; a/s.sh",
            "bash --rcfile a/s.sh -i",
        ),
        *(
            f"{each}; bash a/s.sh"
            for each in ("/bin/cp a/s.sh s; bash s", "cat a/s.sh > s; bash s")
        ),
        *(f"{each}; bash a/s.sh" for each in ("cp a/* .; ./s.sh", "rsync a/s.sh s; bash s")),
        *(f"{each}; bash a/s.sh" for each in ("git mv a/s.sh s; bash s", "BASH_ENV=a/s.sh bash")),
        *("exec -a /srv/a/b bash a/s.sh", "env -C a bash s.sh; bash a/s.sh"),
    ],
)
def test_script_that_enters_the_folder_above_its_own_asks_under_another_name(run: str) -> None:
    """The name in `$0` is then another one: a script at the top leaves the workspace."""
    assert not asks(f"{_ABOVE_ITS_OWN}bash a/s.sh")
    assert not asks(f"{_ABOVE_ITS_OWN}chmod +x a/s.sh && ./a/s.sh")
    assert asks(f"{_ABOVE_ITS_OWN}{run}")


@each_row("line", ['cp "$0" s; bash s', "cp a/s.sh s; bash s"])
def test_script_that_enters_the_folder_above_its_own_and_copies_itself_asks(line: str) -> None:
    """The copy enters another folder."""
    script = _ABOVE_ITS_OWN.removesuffix("E\n")

    assert not asks(f"{script}ls\nE\nbash a/s.sh")
    assert asks(f"{script}{line}\nE\nbash a/s.sh")


def test_way_back_from_a_link_that_is_made_before_asks() -> None:
    """With -P, the folder above a link is the one above where the link leads."""
    assert asks("ln -s /srv/a a && cd -P a/.. && rm -rf x")
    assert asks("ln -s /srv/a a; set -P; cd a/..; rm -rf x")
    assert asks("git clone u a && cd -P a/b/.. && rm -rf x")
    assert asks("unzip a; set -o physical; cd a/b/..; rm -rf x")
    assert not asks("ln -s ../b a/b; cd a/..; rm -rf x")


def test_way_back_from_a_link_asks_where_it_is_no_way_back(tmp_path: Path) -> None:
    """With -P, the folder above a link is the one above where the link leads."""
    root = tmp_path.resolve() / "here"
    for each in (root / "x", tmp_path / "away" / "x", tmp_path / "away" / "in"):
        each.mkdir(parents=True)
    (root / "link").symlink_to(tmp_path / "away" / "in")

    assert asks("cd -P link/..; rm -rf x", root)
    assert asks("set -P; cd link/.. && rm -rf x", root)
    assert asks("cd ~/.. && rm -rf x", root)
    assert asks("cd -P link/.. && rm -rf x*", root)
    assert not asks("cd x/.. && rm -rf x", root)


@each_row(
    ("script", "is_asked"),
    [
        ("cat > s.sh <<{}\nD=build\nrm -rf $D/a\n{}\nbash s.sh", True),
        ("cat <<{} > s.sh\nD=build\nrm -rf $D/*\n{}\nbash s.sh", True),
        ("tee s.sh <<{} > /dev/null\nD=build\nrm -rf ${{D}}/a\n{}\nbash s.sh", True),
        ("cat > s.sh <<{}\nrm -rf build\n{}\nbash s.sh", False),
    ],
)
def test_value_that_bash_puts_in_before_a_script_is_written_is_not_the_scripts(
    script: str, *, is_asked: bool
) -> None:
    """Threat 19: `rm -rf $D/a` is `rm -rf /a` there, whatever the script sets."""
    assert asks(script.format("E", "E")) == is_asked
    assert not asks(script.format("'E'", "E").replace("/*", "/a"))
