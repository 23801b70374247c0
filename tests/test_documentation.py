"""The documentation matches the program: its examples, its links, and the public names."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import agent_cli as public
from agent_cli import Agent, AgentSession, LoopConfig, SessionOptions, Tool, get_model, tool
from agent_cli.app.arguments import parse_arguments
from agent_cli.policies.network_rules import REGISTRIES
from agent_cli.repl.commands.files import REVIEW_COMMAND
from agent_cli.repl.commands.registry import COMMANDS
from tests.e2e.program import AGENT_CLI, agent_cli
from tests.messages_api import reply, serve_in_thread, tool_use
from tests.repl.terminal import Terminal
from tests.tables import each_row
from tests.test_architecture import sources

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
SHELL = re.compile(r"```(?:sh|bash)\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
# Read-only commands: they need no key, no server and no session.
LOOKING = (
    "config ",
    "permissions explain ",
    "sessions list",
    "sessions search",
    "sessions verify",
    "hooks list",
)
DECISIONS = "decisions/README.md"
# `module.Class` in a docstring or comment, and a file of ours on a page about the code; files of
# users are named with a folder of theirs, or on other pages.
CLASS = re.compile(r"`((?:[a-z_]\w*\.)+)([A-Z]\w*)`")
FILE = re.compile(r"`([\w/-]{2,}\.py)`")
ABOUT_THE_CODE = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/architecture.md",
    "docs/adding-a-provider.md",
)
DURATIONS = re.compile(r"\d+\.\d+ ?s\b|\d+ s\b")
# A path that may be long, and the sandbox if it was found in time.
GREETING = re.compile(r"(?<=the tests run\.\n\n).*?(?=you> )", re.DOTALL)
# Python versions report failures in more or fewer lines, and calls may end in another order.
FOLDED = re.compile(r"\d+(?= more lines)|(?<=/output )\d+")


def page(name: str) -> str:
    """Return the text of a page of the documentation."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def comparable(transcript: str) -> list[str]:
    """Return the lines without the parts that differ between computers."""
    text = FOLDED.sub("n", GREETING.sub("", DURATIONS.sub("n s", transcript)))
    return [line.rstrip() for line in text.strip("\n").split("\n")]


def test_demo_transcript_in_the_docs_matches_what_the_demo_prints() -> None:
    """They are compared line by line, for a terminal of 100 columns."""
    shown = (
        page("getting-started").partition("```text\n$ agent-cli demo\n")[2].partition("\n```")[0]
    )

    with Terminal(AGENT_CLI, "demo", TERM="xterm-256color") as terminal:
        assert terminal.exit_code() == 0

        assert comparable(terminal.text) == comparable(shown)


def test_program_on_the_library_page_is_one_of_the_examples() -> None:
    """That way both type checkers read it."""
    assert program_of("real_model") == program_below("## An agent")
    assert program_of("session_question") == program_below("## A session")


def test_programs_on_the_page_about_another_sdk_are_the_examples_of_sessions() -> None:
    """Those run in the tests, and both type checkers read them."""
    shown = re.findall(r"```python\n(.*?)```", page("claude-agent-sdk"), re.DOTALL)
    names = [path.stem for path in (ROOT / "examples").glob("session_*.py")]

    assert sorted(shown) == sorted(map(program_of, names))


def test_tool_on_the_library_page_is_a_tool() -> None:
    program = page("library").partition("key (`environment")[2].partition("```python\n")[2]
    names: dict[str, object] = {}

    exec(program.partition("```")[0], names)

    made = names["find_order"]
    assert isinstance(made, Tool)
    assert made.spec.input_schema["required"] == ["number"]


def test_function_on_the_library_page_prepares_a_model_call() -> None:
    """The page is all that says how; no other name of the package is needed for it."""
    names: dict[str, Any] = {}  # Any: what the program defines
    config = LoopConfig(model=get_model("claude-sonnet-5-5"), tools=[named("read"), named("write")])
    turn = Agent(config).next_turn()

    exec(program_below("### Before each model call"), names)
    names["prepare"](turn)

    assert [each.name for each in turn.tools] == ["read"]
    assert turn.system == ["The tests are red."]


def named(name: str) -> Tool:
    """Return a tool that does nothing."""

    async def nothing() -> str:
        """Do nothing."""
        return ""

    return tool(name=name)(nothing)


def program_of(example: str) -> str:
    """Return an example without its docstring."""
    return (ROOT / "examples" / f"{example}.py").read_text().partition('"""\n\n')[2]


def program_below(heading: str) -> str:
    """Return the first program below a heading of the page of the library."""
    section = page("library").partition(f"\n{heading}\n")[2]
    return section.partition("```python\n")[2].partition("```")[0]


def test_provider_on_the_library_page_answers(tmp_path: Path) -> None:
    """It repeats the prompt, without a key and without a server."""
    (tmp_path / "example.py").write_text(
        program_below("### Tests, and a provider of your own"), encoding="utf-8"
    )

    ran = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ran.stdout, ran.returncode) == ("Hello!\n", 0), ran.stderr


async def test_plugin_on_the_page_about_plugins_notes_lines_and_reminds_of_them() -> None:
    program = page("plugins").partition("## Plugins as Python packages\n")[2]
    names: dict[str, Any] = {}  # Any: what the program defines
    exec(program.partition("```python\n")[2].partition("```")[0], names)
    call = tool_use("note", {"line": "The door is blue."})

    with serve_in_thread(reply(call), reply("Done."), reply("Blue.")) as api:
        options = SessionOptions(
            plugins=[names["notes"]],
            environment={"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.base_url},
        )
        async with AgentSession(options) as session:
            await session.prompt("Note that the door is blue.")
            await session.prompt("Which colour has the door?")

    asked = [str(request.body["messages"]) for request in api.requests]
    reminded = ["Notes of this session: The door is blue." in each for each in asked]
    assert reminded == [False, True, True]


def test_prompt_page_names_every_slash_command() -> None:
    """It names none that does not exist."""
    rows = [line for line in page("prompt").splitlines() if line.startswith("|")]
    named = {name for row in rows for name in re.findall(r"`/([a-z-]+)", row)}

    assert named == {command.name for command in (*COMMANDS, REVIEW_COMMAND)}


def test_program_on_the_library_page_runs(tmp_path: Path) -> None:
    """S0-71, S3-01: unchanged, with a test server in place of the real one."""
    program = program_below("## An agent")
    (tmp_path / "example.py").write_text(program, encoding="utf-8")

    with serve_in_thread(reply("Hello yourself!")) as api:
        ran = subprocess.run(
            [sys.executable, "example.py"],
            env={**os.environ, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.base_url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert (ran.stdout, ran.returncode, api.refusals) == ("Hello yourself!", 0, []), ran.stderr


def command_lines(text: str) -> list[list[str]]:
    """Return the words after `agent-cli` in each line of a shell block of *text*."""
    lines = "".join(SHELL.findall(text)).replace("\\\n", " ").splitlines()
    parts = [part for line in lines for part in re.split(r"\s[|<>]\s", line.partition("  #")[0])]
    return [shlex.split(part)[1:] for part in parts if re.match(r"agent-cli( |$)", part)]


@each_row("path", [ROOT / "README.md", *PAGES])
def test_each_command_shown_in_the_docs_is_valid(path: Path) -> None:
    """It is parsed as written, and read-only commands are run."""
    for words in command_lines(path.read_text(encoding="utf-8")):
        parse_arguments(words)
        if " ".join(words).startswith(LOOKING):
            assert agent_cli(*words).code == 0, words


def test_commands_shown_in_the_docs_are_found() -> None:
    found = [line for path in PAGES for line in command_lines(path.read_text(encoding="utf-8"))]

    assert ["-p", "review this", "--output-format", "json"] in found
    assert len([line for line in found if " ".join(line).startswith(LOOKING)]) >= 5


def test_docs_index_names_each_page_once_and_no_link_is_broken() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")

    named = [link for link, _ in LINK.findall(index)]
    assert sorted(named) == sorted(
        [path.name for path in PAGES if path.stem != "index"] + [DECISIONS]
    )
    for path in (ROOT / "README.md", *PAGES):
        text = path.read_text(encoding="utf-8")
        for link, anchor in LINK.findall(text):
            target = path.parent / link if link else path
            assert target.exists(), f"{path.name}: {link}"
            headings = re.findall(r"^#+ (.*)$", target.read_text() if anchor else "", re.MULTILINE)
            assert not anchor or anchor in map(anchor_of, headings), f"{path.name}: #{anchor}"


def anchor_of(heading: str) -> str:
    """Return the anchor of a link to *heading*."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_readme_stays_short() -> None:
    """Content of a page need not be repeated here."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_page_about_the_network_lists_the_hosts_of_the_group() -> None:
    rows = [
        f"| {name} | {', '.join(f'`{host}`' for host in hosts)} |"
        for name, hosts in REGISTRIES.items()
    ]

    assert "\n".join(rows) in page("network")


def test_the_reference_names_each_public_name_once() -> None:
    """`__version__` is a text and needs no section."""
    names = re.findall(r"^::: [\w.]+\.(\w+)$", page("api"), re.MULTILINE)

    assert sorted(names) == sorted({*public.__all__} - {"__version__"})


def test_each_section_of_the_reference_is_the_public_object() -> None:
    paths = re.findall(r"^::: ([\w.]+)$", page("api"), re.MULTILINE)
    assert paths
    for path in paths:
        module, name = path.rsplit(".", 1)
        assert getattr(import_module(module), name) is getattr(public, name), path


def test_classes_named_in_comments_are_where_they_are_named() -> None:
    """Modules that were merged or renamed left ten such names behind."""
    texts = {path: path.read_text() for path in sources().values()}

    assert [
        f"{path.relative_to(ROOT)}: {module}{name}"
        for path, text in texts.items()
        for module, name in CLASS.findall(text)
        if (homes := _modules_called(module.rstrip("."), texts))
        and not any(re.search(rf"\b{name}\b", texts[home]) for home in homes)
    ] == []


def _modules_called(name: str, paths: Iterable[Path]) -> list[Path]:
    """Return the modules of ours whose dotted path ends with *name*."""
    ends = tuple(f"/{name.replace('.', '/')}{end}" for end in (".py", "/__init__.py"))
    return [path for path in paths if path.as_posix().endswith(ends)]


def _pages_about_the_code() -> list[Path]:
    pages = [ROOT / name for name in ABOUT_THE_CODE]
    return [*pages, *(ROOT / "docs/decisions").glob("*.md")]


def test_classes_named_on_pages_about_the_code_exist() -> None:
    """The page about providers named one in a module that had been merged."""
    texts = {path: path.read_text() for path in sources().values()}

    assert [
        f"{path.relative_to(ROOT)}: {module}{name}"
        for path in _pages_about_the_code()
        for module, name in CLASS.findall(path.read_text())
        if not any(
            re.search(rf"\b{name}\b", texts[home])
            for home in _modules_called(module.rstrip("."), texts)
        )
    ] == []


def test_files_named_on_pages_about_the_code_exist() -> None:
    folders = [ROOT / name for name in ("agent_cli", "tools", "tests", "benchmarks", "docs")]
    files = [path.as_posix() for folder in folders for path in folder.rglob("*.py")]

    assert [
        f"{path.relative_to(ROOT)}: {name}"
        for path in _pages_about_the_code()
        for name in FILE.findall(path.read_text())
        if not any(file.endswith(f"/{name}") for file in files)
    ] == []
