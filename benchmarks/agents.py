"""The cost of a turn for one of eight concurrent agents, compared with a single agent's turn.

Bar: the CPU time of a child's turn at most 1.5 times that of a single agent's turn.
"""

import threading
from collections import Counter

from benchmarks._program import Finished, empty_home, run
from tests.messages_api import ReceivedRequest, Reply, reply, serve_in_thread, tool_use

AGENTS = 8
TURNS = 10
TIMES = 3


class Script:
    """Lets each agent look *turns* times; the first one starts *agents* before, if any."""

    def __init__(self, turns: int, agents: int) -> None:
        self._turns, self._agents = turns, agents
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, request: ReceivedRequest) -> Reply:
        task = str(request.body["messages"][0]["content"][-1]["text"])
        with self._lock:
            self._asked[task] += 1
            asked = self._asked[task]
        if task == "go" and self._agents:
            return self._started() if asked == 1 else reply("done")
        if asked <= self._turns:
            return reply(tool_use("glob", {"pattern": "*.nothing"}))
        return reply("done")

    def _started(self) -> Reply:
        names = [f"task {number}" for number in range(self._agents)]
        return reply(
            *(
                tool_use("agent", {"description": n, "prompt": n, "subagent_type": "explore"})
                for n in names
            )
        )


def session(turns: int, agents: int) -> Finished:
    with serve_in_thread(answer=Script(turns, agents)) as api, empty_home() as environment:
        environment |= {
            "ANTHROPIC_BASE_URL": api.base_url,
            "AGENT_CLI_AGENTS__MAX_PARALLEL": str(AGENTS),
            "AGENT_CLI_AGENTS__ASK_BEYOND": str(AGENTS),
        }
        arguments = ["-p", "go", "--permission-mode", "yolo", "--max-rounds", "0"]
        return run(arguments, environment, environment["HOME"])


def turn_ms(agents: int) -> float:
    """Return the CPU time of one more turn, without the start of the program and the agents."""
    times = max(agents, 1)
    few = min(session(TURNS * AGENTS // times, agents).cpu_s for _ in range(TIMES))
    many = min(session(3 * TURNS * AGENTS // times, agents).cpu_s for _ in range(TIMES))
    return (many - few) / (2 * TURNS * AGENTS) * 1000


def main() -> None:
    alone, beside = turn_ms(0), turn_ms(AGENTS)
    print(f"a turn of one agent alone: {alone:.2f} ms CPU")
    print(f"a turn of one of {AGENTS} agents at once: {beside:.2f} ms CPU")
    print(f"ratio: {beside / alone:.2f} (bar: 1.5)")


if __name__ == "__main__":
    main()
