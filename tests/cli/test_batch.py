"""`agent-cli batch`: the options of its runs."""

from pathlib import Path

from agent_cli.app.arguments import parse_arguments
from agent_cli.cli.batch import worker_options


def test_batch_options_are_passed_to_runs_with_absolute_paths() -> None:
    """A run works in another folder, where relative paths would mean other files."""
    here = Path.cwd()
    words = (
        "batch t.jsonl --jobs 3 --budget 2 --output-dir o --settings s.toml --add-dir a --add-dir b"
        " --trust --time-limit 1.5 --json-schema j --model high --allow x --allow=-y"
        " --mcp-config m --no-mcp --require-tools read --attach --config a.b=c=d"
    )

    handed_on = list(worker_options(parse_arguments(words.split())))

    assert handed_on == [
        "--time-limit=1.5",
        f"--json-schema={here}/j",
        f"--settings={here}/s.toml",
        f"--add-dir={here}/a",
        f"--add-dir={here}/b",
        "--trust",
        "--no-attach",
        "--model=high",
        "--allow=x",
        "--allow=-y",
        f"--mcp-config={here}/m",
        "--no-mcp",
        "--require-tools=read",
        "--attach",
        "--config=a.b=c=d",
    ]
