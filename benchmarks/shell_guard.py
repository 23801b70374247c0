"""The cost of a decision about a shell command, and the one-time cost of the grammar.

Bar: a plain command in at most 1,000 µs, median, in a workspace on a local disk.
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from agent_cli.policies.shell import CommandRules, Reach, command_rule, judge
from tests.policies.shell.corpus import BENIGN, DANGEROUS
from tests.policies.shell.workspaces import make_workspace

ROUNDS = 20
MEDIAN_MAX_US = 1_000
RULES = CommandRules(
    allow=[command_rule("npm test *"), command_rule("pytest *")],
    deny=[command_rule("git push *"), command_rule("sudo *")],
)


def decision_us(script: str, reach: Reach) -> float:
    begun = time.perf_counter()
    judge(script, RULES, reach)
    return (time.perf_counter() - begun) * 1e6


def report(name: str, scripts: Sequence[str], reach: Reach) -> float:
    costs = sorted(min(decision_us(each, reach) for _ in range(ROUNDS)) for each in scripts)
    median = statistics.median(costs)
    print(f"{name}: {len(costs)} commands, median {median:.0f} µs, most {costs[-1]:.0f} µs")
    return median


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="agent-cli-bench-") as folder:
        reach = make_workspace(Path(folder)).reach()
        print(f"the first decision, with the grammar: {decision_us('ls', reach) / 1e3:.1f} ms")
        harmless = report("harmless", BENIGN, reach)
        dangerous = report("dangerous", [c for each in DANGEROUS.values() for c in each], reach)
    assert max(harmless, dangerous) <= MEDIAN_MAX_US


if __name__ == "__main__":
    main()
