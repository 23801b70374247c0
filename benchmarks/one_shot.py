"""`agent-cli -p`: time from exec to the first byte of the request, peak memory, runs in a loop.

In units of `python -c "import httpx2"`, measured alternately in one run. Targets: 3.0 times, 65 MB.
Run it as `python -m benchmarks.one_shot [ROUNDS]`.
"""

import statistics
import subprocess
import sys
import time

from benchmarks._program import Finished, empty_home, run
from tests.messages_api import reply, serve_in_thread

LOOP = 100
FIRST_BYTE_TARGET = 3.0
MEMORY_TARGET_MB = 65


def importing(environment: dict[str, str]) -> float:
    """Return the seconds of a bare import of the HTTP library."""
    started_s = time.perf_counter()
    command = [sys.executable, "-c", "import httpx2"]
    subprocess.run(command, env=environment, check=True, timeout=60)
    return time.perf_counter() - started_s


def importing_s(environment: dict[str, str], rounds: int) -> float:
    """Return the median of that after a first one, which may read the library from the disk."""
    importing(environment)
    return statistics.median(importing(environment) for _ in range(rounds))


def first_byte(environment: dict[str, str]) -> tuple[float, Finished]:
    """Return the seconds from exec to the request, and the run."""
    with serve_in_thread(reply("done")) as api:
        environment = environment | {"ANTHROPIC_BASE_URL": api.base_url}
        started_s = time.monotonic()
        finished = run(["-p", "go"], environment, environment["HOME"])
        return api.requests[0].at_s - started_s, finished


def main(rounds: int) -> None:
    """Measure both alternately and print medians; then the loop."""
    with empty_home() as environment:
        importing(environment)
        first_byte(environment)  # compile uncompiled modules
        pairs = [(importing(environment), first_byte(environment)) for _ in range(rounds)]
        bare_s = statistics.median(bare for bare, _ in pairs)
        first_s = statistics.median(first for _, (first, _) in pairs)
        peak_mb = statistics.median(finished.peak_mb for _, (_, finished) in pairs)
        ratio = first_s / bare_s
        print(f"import httpx2           {bare_s * 1000:7.1f} ms   1.0x")
        print(
            f"exec -> first byte      {first_s * 1000:7.1f} ms  {ratio:4.1f}x"
            f"  (target {FIRST_BYTE_TARGET:g}x)"
        )
        print(f"peak memory             {peak_mb:7.1f} MB        (target {MEMORY_TARGET_MB})")
        runs = [first_byte(environment)[1] for _ in range(LOOP)]
        print(
            f"{LOOP} runs in a row      {sum(r.wall_s for r in runs):7.1f} s wall,"
            f" {sum(r.cpu_s for r in runs):.1f} s CPU"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
