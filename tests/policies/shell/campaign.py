"""Run a long fuzz: `python -m tests.policies.shell.campaign 50000 1` composes 50,000 scripts.

Each script that the policy allows is run for real, traced by the kernel. Prints the scripts that
did more than read, and the counts; exits with 1 if there are any.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from agent_cli.policies.shell import CommandRules, judge
from tests.policies.shell.fuzzing import compose, compose_form, compose_known
from tests.policies.shell.oracle import effects
from tests.policies.shell.workspaces import make_workspace

COMPOSERS = (compose_form, compose_form, compose, compose_known)


def main(count: int, first: int) -> int:
    """Run *count* variants, starting with seed *first*."""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        workspace = make_workspace(Path(folder) / "tree", plain_git=True)
        reach = workspace.reach(git_is_safe=True)
        log = Path(folder) / "log"
        for seed in range(first, first + count):
            script = COMPOSERS[seed % len(COMPOSERS)](seed)
            allowed = judge(script, CommandRules(), reach).verdict == "allow"
            found["composed"] += 1
            found["allowed"] += allowed
            if allowed and (did := effects(script, workspace, log)):
                found["wrong"] += 1
                print(repr(script), *did[:3], sep="\n    ", flush=True)
    print(dict(found), flush=True)
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
