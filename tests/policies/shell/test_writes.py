"""Which scripts surely read no secret although they change files, where no sandbox can hide one."""

import os
from pathlib import Path

import pytest

from agent_cli.policies.shell.reach import Reach
from agent_cli.policies.shell.unknown_reads import reads_no_secret
from agent_cli.sandbox.secret_files import is_secret
from tests.tables import each_row


@pytest.fixture
def reach(tmp_path: Path) -> Reach:
    for name in ("a.txt", "src/app.py", "src/sub/b.py", "vault/.env", ".env", "x/.npmrc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n")
    (tmp_path / "to-secret").symlink_to(".env")
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "src" / "later").symlink_to("key.pem.copy")
    return Reach(root=tmp_path, is_secret=is_secret, search_path=os.defpath)


@each_row(
    "script",
    [
        *(
            "mkdir -p build/out",
            "touch notes.md",
            "cp a.txt b.txt",
            "cp -r src src2",
            "rm -f a.txt",
        ),
        *("mv a.txt b.txt", "rm -rf src/sub", "chmod +x a.txt", "chmod -R 755 src", "rmdir none"),
        *(
            "ls src && mkdir -p a/b; touch a/b/c",
            "cp src/*.py a.txt src/sub",
            "cat a.txt; mv a.txt b",
        ),
        *("cat a.txt && rm a.txt && mkdir d", "mkdir d; cp a.txt d/a.txt; rm a.txt"),
    ],
)
def test_script_that_changes_only_what_it_names_reads_no_secret(script: str, reach: Reach) -> None:
    """Threat 4: in `auto-edit` under Landlock each of them was a question beside a `.env`."""
    assert reads_no_secret(script, reach)


@each_row(
    "script",
    [
        *(
            "cp .env b",
            "cp ./././.env b",
            "cp to-secret b",
            "mv .env b",
            "cp -r vault v",
            "cp -r . v",
        ),
        *("mv vault v", "rm .env", "chmod 644 .env", "touch .env", "cp a.txt .", "cp .e* b"),
        *("cp out/passwd b", "mv a.txt out", "cp -L src/later b", "cp -l a.txt b", "cp -s a.txt b"),
        *(
            "cp --parents a.txt src",
            "cp -t src a.txt",
            "ln a.txt b",
            "ln -s .env b",
            "install a.txt b",
        ),
        *("mv src/later l; cat l", "mv src/later l; cp l m", "cp -a src s; cat s/later"),
        *("mkdir d; cp *.txt d", "cd vault; cp .env b", "cd src && mkdir d", "cp a.txt b | cat"),
        *("xargs cp < a.txt", "touch a; python3 a.py", "mkdir d; sh a.txt", "rm a.txt; make"),
        *("touch -r .env a", "chmod --reference=.env a.txt", "mkdir $(cat .env)", "touch $x"),
        *('touch "$(<.env)"', "mkdir `cat .env`", "cp a.txt b > c", "mv -t vault a.txt"),
        *("{ mkdir d; }", "for f in a b; do touch $f; done", "cp a.txt /tmp/b", "git add a.txt"),
        *("chmod", "chmod u=g a.txt", "mkdir", "env mkdir d", "FOO=x mkdir d", "./cp a.txt b"),
    ],
)
def test_script_that_may_read_a_secret_is_none_of_them(script: str, reach: Reach) -> None:
    """Threat 4: nor one whose later commands may find other files behind a link."""
    assert not reads_no_secret(script, reach)
