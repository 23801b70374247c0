"""Linearity of the CPU time for a long answer in 20-byte deltas to a pipe.

Bar: twice the text, at most 2.3 times the time. Start-up is measured with an empty answer and
subtracted.
"""

from benchmarks._program import empty_home, run
from tests.messages_api import reply, serve_in_thread

LINE = "The quick brown fox jumps over the lazy dog, again and again and again. \n"


def cpu_s(characters: int) -> float:
    answer = (LINE * (characters // len(LINE) + 1))[:characters] or "ok"
    with serve_in_thread(reply(answer, chunk_chars=20)) as api, empty_home() as environment:
        done = run(
            ["-p", "go"], environment | {"ANTHROPIC_BASE_URL": api.base_url}, environment["HOME"]
        )
    assert len(done.stdout) >= len(answer.strip())
    return done.cpu_s


def main() -> None:
    start = min(cpu_s(0) for _ in range(3))
    half = min(cpu_s(500_000) for _ in range(3)) - start
    whole = min(cpu_s(1_000_000) for _ in range(3)) - start
    print(f"start-up {start:.2f} s CPU; 0.5 MB {half:.2f} s; 1 MB {whole:.2f} s")
    print(f"twice the text takes {whole / half:.2f} x the time (bar: 2.3)")


if __name__ == "__main__":
    main()
