"""The cost of a tool turn beyond the tool, of four concurrent sleeping tools, and memory.

Bars: median of at most 15 ms CPU from the end of a reply to the next request, after warm-up; four
calls that sleep 0.5 s in less than 0.8 s; a session of 50 turns in at most 130 MB; system prompt
and tool definitions of the first request in at most 1,600 tokens (bytes / 4).
"""

import json
import statistics

from benchmarks._program import Finished, empty_home, own_s, run
from tests.messages_api import FakeMessagesApi, Reply, reply, serve_in_thread, tool_use

TURNS = 50
TIMES = 5
"""A start takes 200 times what a turn does, and varies: the least of so many counts."""


def session(*script: Reply) -> tuple[Finished, FakeMessagesApi]:
    with serve_in_thread(*script) as api, empty_home() as environment:
        environment |= {"ANTHROPIC_BASE_URL": api.base_url}
        arguments = ["-p", "go", "--permission-mode", "yolo"]
        return run(arguments, environment, environment["HOME"]), api


def glob_turns(count: int) -> list[Reply]:
    return [reply(tool_use("glob", {"pattern": "*.nothing"})) for _ in range(count)]


def main() -> None:
    pairs = [
        [session(*glob_turns(turns), reply("done")) for turns in (10, 10 + TURNS)]
        for _ in range(TIMES)
    ]
    (few, first), (many, api) = (
        min(runs, key=lambda run: run[0].cpu_s) for runs in zip(*pairs, strict=True)
    )
    per_turn_ms = (many.cpu_s - few.cpu_s) / TURNS * 1000
    gap_s = statistics.median(own_s(api.requests[10:]))
    print(f"a tool turn: {per_turn_ms:.1f} ms CPU in our process (bar: 15), replies read included")
    print(f"  from a reply to the next request: median {gap_s * 1000:.1f} ms wall")
    print(f"peak memory, {10 + TURNS} turns: {many.peak_mb:.0f} MB (bar: 130)")

    naps = [tool_use("bash", {"command": "sleep 0.5"}) for _ in range(4)]
    _, api = session(reply(*naps), reply("done"))
    print(f"four 0.5 s sleeps in one reply: {next(own_s(api.requests)):.2f} s (bar: 0.8)")

    body = first.requests[0].body
    tokens = {
        part: len(json.dumps(body[part], ensure_ascii=False, separators=(",", ":")).encode()) // 4
        for part in ("system", "tools")
    }
    print(f"first request: {tokens}, together {sum(tokens.values())} tokens (bar: 1,600)")


if __name__ == "__main__":
    main()
