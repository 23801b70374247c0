"""The task file: every fault in it is reported before anything starts."""

import json
import subprocess
from pathlib import Path

import pytest

from agent_cli.batch.tasks import read_tasks
from agent_cli.contracts.errors import UsageError
from tests.tables import each_row

GOOD = {"id": "a", "prompt": "go"}


def write(path: Path, *lines: object) -> Path:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "sub").mkdir(parents=True)
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    for words in (
        ("init", "--quiet", "--initial-branch=main"),
        ("commit", "--quiet", "--allow-empty", "-m", "first"),
    ):
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, timeout=60)
    return folder


def test_paths_in_tasks_are_relative_to_the_task_file(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch means the same wherever it is started; blank lines are skipped."""
    (tmp_path / "task.md").write_text("Fix it.\n")
    file = write(
        tmp_path / "tasks.jsonl",
        {"id": "a", "prompt": "go", "model": "high", "time_limit": 90.5, "max_cost": 0.5},
        "",
        {"id": "b", "prompt_file": "task.md", "cwd": "repository/sub", "ref": "main"},
        {"id": "c", "prompt": "go", "effort": "max"},
    )
    monkeypatch.chdir("/")

    first, second, third = read_tasks(file)

    assert (first.cwd, first.prompt, first.checkout) == (tmp_path.resolve(), "go", None)
    assert first.options == ("--model=high", "--time-limit=90.5")
    assert first.max_cost_usd == 0.5
    assert (second.cwd, second.prompt) == ((repository / "sub").resolve(), "Fix it.\n")
    assert second.checkout is not None
    assert second.checkout.repository == repository.resolve()
    assert len(second.checkout.commit) == 40
    assert first.fingerprint != second.fingerprint
    assert third.options == ("--effort=xhigh",)


def test_byte_order_mark_is_no_part_of_the_first_task(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps(GOOD), encoding="utf-8-sig")

    assert [task.id for task in read_tasks(file)] == ["a"]


@each_row(
    ("line", "sentence"),
    [
        ('{"id": }', "not valid JSON: Expecting value, at column 8"),
        ("[" * 100_000, "not valid JSON: "),
        ("[1]", "write an object"),
        ({"prompt": "go"}, "id is missing"),
        ({"id": 1, "prompt": "go"}, "id must be text"),
        (GOOD, "id 'a' is used twice"),
        ({"id": "A", "prompt": "go"}, "id 'A' is used twice"),
        ({"id": "../x", "prompt": "go"}, "id '../x': use up to 100 letters"),
        ({"id": "..", "prompt": "go"}, "id '..': use"),
        ({"id": "b"}, "give the task either prompt or prompt_file"),
        ({**GOOD, "id": "b", "prompt_file": "x"}, "give the task either prompt or prompt_file"),
        ({"id": "b", "prompt_file": "nowhere"}, "cannot be read: No such file"),
        ({"id": "b", "prompt": " "}, "its prompt is empty"),
        ({"id": "b", "prompt": "\ud800"}, "its prompt holds half of a character"),
        ({**GOOD, "id": "b", "cwd": "nowhere"}, "nowhere is not a folder"),
        ({**GOOD, "id": "b", "ref": "main"}, "ref needs a git repository"),
        ({**GOOD, "id": "b", "cwd": "repository", "ref": "nope"}, "ref 'nope' is not a commit in"),
        ({**GOOD, "id": "b", "cwd": "repository", "ref": "a\0b"}, "is not a commit in"),
        ({**GOOD, "id": "b", "max_cost": 0}, "max_cost must be more than 0"),
        ({**GOOD, "id": "b", "max_rounds": 1.5}, "max_rounds must be a whole number"),
        ({**GOOD, "id": "b", "effort": "huge"}, "effort must be 'off', 'minimal', 'low', 'medium'"),
        ({**GOOD, "id": "b", "model": ""}, "model is not valid: string should have at least 1 ch"),
        ({**GOOD, "id": "b", "modle": "x"}, "there is no field 'modle'; there are id, prompt"),
    ],
)
def test_each_fault_in_the_task_file_is_reported_with_its_line_number(
    tmp_path: Path, repository: Path, line: object, sentence: str
) -> None:
    file = write(tmp_path / "tasks.jsonl", GOOD, line)

    with pytest.raises(UsageError) as refused:
        read_tasks(file)

    told = str(refused.value)
    assert told.startswith(f"{file}:2: ")
    assert sentence in told
    assert "\n" not in told


def test_first_ten_faults_of_the_task_file_are_reported_together(tmp_path: Path) -> None:
    file = write(tmp_path / "tasks.jsonl", *["{"] * 13)

    with pytest.raises(UsageError) as refused:
        read_tasks(file)

    lines = str(refused.value).splitlines()
    assert (len(lines), lines[-1]) == (11, "and 3 lines more are wrong")


@each_row(
    ("content", "sentence"),
    [(None, "cannot be read: No such file"), (b"\xff", "is not UTF-8"), (b"\n", "holds no task")],
)
def test_unusable_task_file_is_refused_with_the_reason(
    tmp_path: Path, content: bytes | None, sentence: str
) -> None:
    file = tmp_path / "tasks.jsonl"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(UsageError, match=sentence):
        read_tasks(file)
