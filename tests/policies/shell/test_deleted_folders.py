"""Where a script deletes: by links, by what it moved, and by whole paths."""

from pathlib import Path

import pytest

from agent_cli.policies.shell import CommandRules, Reach, judge
from tests.tables import each_row

ROOT = Path("/nowhere/here")


def asks(script: str, root: Path = ROOT) -> bool:
    """Return whether *script* asks in every mode."""
    return judge(script, CommandRules(), Reach(root=root)).verdict == "ask"


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
