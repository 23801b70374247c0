"""Make agent_cli/cli/demo/recording.jsonl anew: `python -m docs.record_demo`.

Plays a script of model replies through the real client, loop and tools on a copy of the demo's
project, with `--record`; then gives the recorded pieces the pace of a model.
"""

import asyncio
import json
import shutil
import tempfile
from pathlib import Path

import agent_cli.cli.demo as demo
from agent_cli.app.app import App
from agent_cli.app.arguments import Arguments
from agent_cli.settings.environment import Environment
from tests.messages_api import FakeMessagesApi, reply, thinking, tool_use

RUN_TESTS = "python3 -m unittest 2>&1 | tail -n 30"
SCRIPT = (
    reply(
        thinking("First what is there, then what the tests say. All of that can run at once."),
        "I'll look at the project and run its tests.",
        tool_use("glob", {"pattern": "**/*.py"}, id="toolu_demo_1"),
        tool_use("read", {"path": "basket.py"}, id="toolu_demo_2"),
        tool_use("read", {"path": "test_basket.py"}, id="toolu_demo_3"),
        tool_use("bash", {"command": RUN_TESTS}, id="toolu_demo_4"),
    ),
    reply(
        thinking("Ten must count as bulk, and basket_total takes the pair apart the wrong way."),
        "Two separate faults in `basket.py`:\n\n"
        "1. `line_total` gives the discount only to **more than** ten (`>`), the test wants it"
        " from ten on.\n"
        "2. `basket_total` reads each pair as (quantity, price); its docstring and the test say"
        " (price, quantity).\n",
        tool_use(
            "edit",
            {
                "path": "basket.py",
                "edits": [
                    {"old": "if quantity > BULK_FROM:", "new": "if quantity >= BULK_FROM:"},
                    {
                        "old": "for quantity, price in lines",
                        "new": "for price, quantity in lines",
                    },
                ],
            },
            id="toolu_demo_5",
        ),
    ),
    reply(
        "Both are mended; now the tests again.",
        tool_use("bash", {"command": RUN_TESTS}, id="toolu_demo_6"),
    ),
    reply(
        "All three tests pass.\n\n"
        "- `basket.py:10`: the bulk discount now begins at ten pieces (`>=`).\n"
        "- `basket.py:17`: pairs are read as (price, quantity), as documented.\n\n"
        "Swapping the pair changed no total without a discount, which is why it went unnoticed:"
        " price × quantity is the same either way.\n"
    ),
)
PIECE_S = 0.02


async def record(target: Path) -> None:
    """Play the script once and write what the client received."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder).resolve() / "basket"
        shutil.copytree(Path(demo.__file__).parent / "project", workspace)
        async with FakeMessagesApi(*SCRIPT) as api:
            environment = Environment(
                {"ANTHROPIC_API_KEY": "recording", "ANTHROPIC_BASE_URL": api.base_url}
            )
            startup = demo.demo_start(workspace, Arguments(record=target))
            startup = startup._replace(environment=environment)
            async with App(startup, one_shot=True) as app:
                result = await app.agent.prompt(demo.PROMPT)
    assert result.stop_reason == "end_turn", result


def pace(target: Path) -> None:
    """Give each piece of each reply its moment; the server sent them all at once."""
    lines: list[str] = []
    at_s = 0.0
    for line in target.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        at_s = at_s + PIECE_S if entry["type"] == "chunk" else 0.0
        if entry["type"] == "chunk":
            entry["at_s"] = round(at_s, 2)
        lines.append(json.dumps(entry, ensure_ascii=False))
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    recording = Path(demo.__file__).parent / "recording.jsonl"
    asyncio.run(record(recording))
    pace(recording)
    print(f"wrote {recording}")
