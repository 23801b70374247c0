"""The cost of a full home: 60 agents, 40 skills and 500 sessions of Claude Code.

CPU time of `-p` and wall time until `you> `, each against an empty home, measured alternately in
one run. Targets: 1.03 and 1.02. Run it as `python -m benchmarks.full_home [ROUNDS]`.
"""

import json
import statistics
import sys
from pathlib import Path
from uuid import UUID

from benchmarks._program import empty_home, run
from benchmarks.startup import start
from tests.messages_api import reply, serve_in_thread

AGENTS, SKILLS, SESSIONS = 60, 40, 500
PARAGRAPH = "Look at the whole change before you say anything about a part of it.\n"


def fill(home: Path) -> None:
    """Write the files of someone who has used other agents for years into *home*."""
    claude = home / ".claude"
    for number in range(AGENTS):
        path = claude / "agents" / f"agent-{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        head = f"name: agent-{number}\ndescription: Reviews part {number} of a change\n"
        path.write_text(f"---\n{head}tools: Read, Grep\n---\n{PARAGRAPH * 40}")
    for number in range(SKILLS):
        path = claude / "skills" / f"skill-{number}" / "SKILL.md"
        path.parent.mkdir(parents=True)
        head = f"name: skill-{number}\ndescription: Use for documents of kind {number}\n"
        path.write_text(f"---\n{head}---\n{PARAGRAPH * 60}")
    folder = claude / "projects" / "-home-ada-project"
    folder.mkdir(parents=True)
    for number in range(SESSIONS):
        id = str(UUID(int=number))
        message = {"role": "user", "content": f"task {number}"}
        line = {"type": "user", "sessionId": id, "uuid": id, "message": message, "cwd": "/p"}
        (folder / f"{id}.jsonl").write_text(json.dumps(line) + "\n")


def one_shot_cpu_s(environment: dict[str, str]) -> float:
    """Return the CPU time of one run of `-p`."""
    with serve_in_thread(reply("done")) as api:
        environment = environment | {"ANTHROPIC_BASE_URL": api.base_url}
        return run(["-p", "go"], environment, environment["HOME"] + "/work").cpu_s


def until_prompt_s(environment: dict[str, str]) -> float:
    """Return the seconds from exec until the prompt."""
    return start(environment).visible_s


def main(rounds: int) -> None:
    """Measure both homes alternately and print medians."""
    with empty_home() as bare, empty_home() as full:
        for environment in (bare, full):
            environment["TERM"] = "xterm-256color"
            (Path(environment["HOME"]) / "work").mkdir()
        fill(Path(full["HOME"]))
        for name, measure, target in (
            ("-p, CPU", one_shot_cpu_s, 1.03),
            ("exec -> `you> `", until_prompt_s, 1.02),
        ):
            for environment in (bare, full):
                measure(environment)  # compile uncompiled modules
            pairs = [(measure(bare), measure(full)) for _ in range(rounds)]
            one, other = (statistics.median(each) for each in zip(*pairs, strict=True))
            least = min(each for _, each in pairs) / min(each for each, _ in pairs)
            print(
                f"{name:<16} empty {one * 1000:6.1f} ms   full {other * 1000:6.1f} ms"
                f"   {other / one:.2f}x (least {least:.2f}x, target {target:g}x)"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
