"""The plugins of installed packages, from a package that is really installed."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.plugins.discovery import discover
from tests.e2e.program import agent_cli
from tests.fakes import calls, says, tool_use
from tests.messages_api import reply, serve_in_thread
from tests.plugins.contributing import Contributing, tool_results

SAMPLE = Path(__file__).with_name("sample_plugin")
SECRETS = {"GOOGLE_CLIENT_ID": "me@example.com", "GOOGLE_CLIENT_SECRET": "canary-secret-9"}
BROKEN = "plugin 'broken' of agent-cli-sample 1.2.0 is not used: ModuleNotFoundError: "


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample package, built and installed as by a user; no index."""
    folder = tmp_path_factory.mktemp("installed")
    pip = (sys.executable, "-m", "pip", "--isolated", "--quiet", "--disable-pip-version-check")
    options = ("--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder))
    subprocess.run([*pip, "install", *options, str(SAMPLE)], check=True, timeout=120)
    return folder


@pytest.fixture
def sample(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, importable here."""
    monkeypatch.syspath_prepend(str(installed))
    return installed


async def test_plugins_and_tools_of_an_installed_package_are_found(
    sample: Path, tmp_path: Path
) -> None:
    """S2-20: a plugin object and a factory of tools, which gets the workspace."""
    (tmp_path / "poem.txt").write_text("a rose is a rose")

    run = Contributing(
        [],
        calls(
            tool_use("word_count", {"path": "poem.txt"}, "t1"),
            tool_use("mail_search", {"query": "roses"}, "t2"),
        ),
        says("done"),
        environment=SECRETS,
        find=lambda: discover(tmp_path),
    )
    async with run.plugins:
        run.plugins.start(run.agent)
        await run.prompt()

    assert run.offered()[0] == ["mail_search", "word_count"]
    assert run.contexts()[0] == ["The user's mail can be searched."]
    assert tool_results(run) == ["5 words", "no mail about roses for me@example.com"]
    assert run.plugins.report() == (("mail", "1.2.0"), ("word_count", "1.2.0"))


def test_broken_plugin_package_is_reported_by_name(sample: Path, tmp_path: Path) -> None:
    """It stops neither the start nor the other plugins; the message has a remedy."""
    [problem] = discover(tmp_path).problems

    assert problem.startswith(BROKEN)
    assert problem.endswith("update agent-cli-sample, or add 'broken' to plugins.disabled")


def test_disabled_entry_point_is_not_imported(sample: Path, tmp_path: Path) -> None:
    """A package that hangs at import can be disabled."""
    found = discover(tmp_path, disabled=["broken", "mail"])

    assert ([plugin.name for plugin in found.plugins], found.problems) == (["word_count"], ())


OFFERS = {
    "exits": "raise SystemExit(3)",
    "number": "offered = 7",
    "needs_more": "def offered(workspace, other): ...",
    "mixed": "offered = [1]",
    "agents": "import agent_cli; offered = agent_cli.Plugin(name='p', agents='agents')",
    "tools": "import agent_cli; offered = agent_cli.Plugin(name='p', tools=None)",
    "no_tool": "import agent_cli; offered = agent_cli.Plugin(name='p', tools=[print])",
    "secret": "import agent_cli; offered = agent_cli.Plugin(name='p', secrets='TOKEN')",
}


@pytest.mark.parametrize("name", OFFERS)
@pytest.mark.parametrize("group", ["agent_cli.plugins", "agent_cli.tools"])
def test_invalid_plugin_object_is_reported_as_a_problem(
    name: str, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An external module can hold anything under its registered name."""
    module = f"strange_{name}_{group.rpartition('.')[2]}"
    (tmp_path / f"{module}.py").write_text(OFFERS[name])
    info = tmp_path / f"{module}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(f"[{group}]\nodd = {module}:offered\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    found = discover(tmp_path)

    assert found.plugins == ()
    [problem] = found.problems
    assert problem.startswith(f"plugin 'odd' of {module} 0.1 is not used: ")


def test_no_plugin_is_found_without_installed_packages(tmp_path: Path) -> None:
    """This program registers no entry points: its own plugins are wired by hand."""
    groups = importlib.metadata.entry_points().groups
    assert {"agent_cli.plugins", "agent_cli.tools"}.isdisjoint(groups)

    assert discover(tmp_path).plugins == ()


def test_the_program_offers_an_installed_plugin_only_with_its_secrets(installed: Path) -> None:
    """S1-27, S1c-10: it needs both of them; a broken plugin costs a warning."""
    path = {"PYTHONPATH": str(installed)}
    with serve_in_thread(reply("one"), reply("two"), reply("three")) as api:
        without = agent_cli("-p", "go", api=api, **path)
        having = agent_cli("-p", "go", api=api, **path, **SECRETS)
        off = agent_cli("-p", "go", "--no-plugins", api=api, **path, **SECRETS)

    bodies = [request.body for request in api.requests]
    names = [[tool["name"] for tool in body["tools"]] for body in bodies]
    assert [("mail_search" in n, "word_count" in n) for n in names] == [
        (False, True),
        (True, True),
        (False, False),
    ]
    described = [str(body["tools"]) for body in bodies]
    agents = ["mail-sorter (Sorts the user's mail.)" in each for each in described]
    assert agents == [False, True, False]
    assert [run.code for run in (without, having, off)] == [0, 0, 0]
    assert without.stderr.count(BROKEN) == having.stderr.count(BROKEN) == 1
    assert off.stderr == ""
    assert SECRETS["GOOGLE_CLIENT_SECRET"] not in str(bodies)


def test_tool_list_at_the_start_includes_plugin_tools(installed: Path) -> None:
    """S1-27: with the secrets set, their tools are in the list shown at the start."""
    with serve_in_thread(reply("one"), reply("two")) as api:
        lists = [
            agent_cli(script="hi\nexit\n", api=api, PYTHONPATH=str(installed), **secrets).stderr
            for secrets in ({}, SECRETS)
        ]

    assert [("word_count" in text, "mail_search" in text) for text in lists] == [
        (True, False),
        (True, True),
    ]


def test_doctor_says_why_a_plugin_is_off(installed: Path) -> None:
    """S1-27, S1c-10: the message names the missing variable."""
    with serve_in_thread(reply("ok")) as api:
        run = agent_cli("doctor", api=api, PYTHONPATH=str(installed), GOOGLE_CLIENT_ID="me")

    lines = [" ".join(line.split()) for line in run.stdout.splitlines()]
    assert "-- plugin mail off: GOOGLE_CLIENT_SECRET not set" in lines
    assert "-- plugin word_count 1.2.0" in lines
    assert any(line.startswith(f"FAIL plugins {BROKEN}") for line in lines)
