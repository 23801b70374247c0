"""Every file of a repository that could act, behind every way to another name: none gets through.

A stranger plants one file for each door, each with a canary. What is read of the workspace before
it is trusted is collected from every door, and holds no canary.
"""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_cli.app import parts
from agent_cli.app.agents import catalogue
from agent_cli.app.app import App
from agent_cli.app.arguments import Arguments
from agent_cli.app.mcp import configured_servers
from agent_cli.app.plugins import command_files, output_styles, skill_texts
from agent_cli.app.startup import StartupContext, start
from agent_cli.attachments.attachments import Attachments
from agent_cli.batch.folder import BatchFolder
from agent_cli.contracts.errors import AgentCliError
from agent_cli.mcp_client import ServerConfig
from agent_cli.system import paths

CANARY = "canary-7f3a"
_HOOKS = {"Stop": [{"hooks": [{"command": f"./{CANARY}.sh"}]}]}
_SKILL = f"---\nname: {CANARY}\ndescription: x\n---\n{CANARY}\n"
PLANTED = {
    ".mcp.json": json.dumps({"mcpServers": {CANARY: {"command": "true"}}}),
    "appsettings.toml": f'model = "{CANARY}"\n[[hooks.Stop]]\nhooks = [{{ command = "x" }}]\n',
    "appsettings.json": json.dumps({"output_style": CANARY}),
    ".env": f"CANARY={CANARY}\nAGENT_CLI_MODEL={CANARY}\n",
    ".claude/settings.json": json.dumps({"hooks": _HOOKS}),
    ".claude/settings.local.json": json.dumps({"hooks": _HOOKS}),
    ".agent-cli/skills/s/SKILL.md": _SKILL,
    ".claude/skills/s/SKILL.md": _SKILL,
    ".agents/skills/s/SKILL.md": _SKILL,
    ".agent-cli/agents/a.md": f"---\nname: {CANARY}\ndescription: x\n---\n{CANARY}\n",
    ".claude/agents/a.md": f"---\nname: {CANARY}\ndescription: x\n---\n{CANARY}\n",
    f".agent-cli/commands/{CANARY}.md": f"{CANARY}\n",
    f".claude/commands/{CANARY}.md": f"{CANARY}\n",
    ".agent-cli/output-styles/o.md": f"---\nname: {CANARY}\n---\n{CANARY}\n",
    ".claude/output-styles/o.md": f"---\nname: {CANARY}\n---\n{CANARY}\n",
}


def _plain(place: Path, text: str, _beside: Path) -> None:
    place.write_text(text)


def _link_out(place: Path, text: str, beside: Path) -> None:
    target = beside / f"target-{place.name}-{len(list(beside.iterdir()))}"
    target.write_text(text)
    place.symlink_to(os.path.relpath(target, place.parent))


def _link_chain(place: Path, text: str, beside: Path) -> None:
    _link_out(place.with_name(f"one-{place.name}"), text, beside)
    back = beside / f"back-{len(list(beside.iterdir()))}"
    back.symlink_to(place.with_name(f"one-{place.name}"))
    place.symlink_to(back)


def _link_within(place: Path, text: str, _beside: Path) -> None:
    target = place.with_name(f"within-{place.name}")
    target.write_text(text)
    place.symlink_to(target.name)


def _hard_link(place: Path, text: str, beside: Path) -> None:
    target = beside / f"hard-{len(list(beside.iterdir()))}"
    target.write_text(text)
    os.link(target, place)


WAYS: dict[str, Callable[[Path, str, Path], None]] = {
    "plain": _plain,
    "link out": _link_out,
    "link chain": _link_chain,
    "link within": _link_within,
    "hard link": _hard_link,
}


def _start_in_repository(folder: Path) -> Path:
    (folder / ".git").mkdir()
    return folder


def _start_in_part(folder: Path) -> Path:
    (folder.parent / ".git").mkdir()
    return folder


def _start_in_worktree(folder: Path) -> Path:
    main = folder.parent / "main"
    own = main / ".git" / "worktrees" / "w"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text(f"{folder}/.git\n")
    (folder / ".git").write_text(f"gitdir: {own}\n")
    return folder


def _start_in_nested(folder: Path) -> Path:
    (folder.parent / ".git").mkdir()
    (folder / ".git").mkdir()
    return folder


def _start_behind_link(folder: Path) -> Path:
    (folder / ".git").mkdir()
    link = folder.parent / "link"
    link.symlink_to(folder)
    return link


STARTS = {
    "repository": _start_in_repository,
    "part of a repository": _start_in_part,
    "worktree": _start_in_worktree,
    "nested repository": _start_in_nested,
    "behind a link": _start_behind_link,
}


def _doors(startup: StartupContext) -> Iterator[tuple[str, object]]:
    """Yield what gets through each door."""
    servers = configured_servers(startup)
    yield "servers", [each for each in servers if isinstance(each, ServerConfig)]
    yield "variables", dict(startup.environment)
    yield "settings", (startup.loaded.settings, startup.loaded.rules)
    yield "hooks", startup.loaded.hooks
    agents = catalogue(startup, warn=lambda _text: None).all()
    yield "agents", [(each.name, each.source) for each in agents]
    yield "styles", output_styles(startup, warn=lambda _text: None).names()
    yield "skills", skill_texts(startup, [CANARY])[0].replace(f"[skill {CANARY}]", "")
    commands = command_files(startup).commands()
    yield "commands", [each.name for each in commands if not each.problem]
    yield "prompt", parts.system_prompt(startup)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "stranger" / "project"
    folder.mkdir(parents=True)
    return folder


def _plant(folder: Path, way: str) -> None:
    beside = folder.parent / "beside"
    beside.mkdir()
    for name, text in PLANTED.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        WAYS[way](place, text, beside)


@pytest.mark.parametrize("origin", STARTS)
@pytest.mark.parametrize("way", WAYS)
def test_nothing_that_a_stranger_planted_acts_before_trust(
    way: str, origin: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threats 10 and 24: by no door, whatever the names lead to."""
    _plant(repository, way)
    monkeypatch.chdir(STARTS[origin](repository))

    startup = start(Arguments(), may_ask=False)

    through = [door for door, found in _doors(startup) if CANARY in str(found)]
    assert through == []
    assert "ignored: this workspace is not trusted" in str(startup.notices)


def test_every_door_opens_with_trust(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the test above could not fail."""
    _plant(repository, "plain")
    monkeypatch.chdir(_start_in_repository(repository))

    startup = start(Arguments(trust=True), may_ask=False)

    through = {door for door, found in _doors(startup) if CANARY in str(found)}
    assert through == {
        *("servers", "variables", "settings", "hooks", "agents", "styles", "skills", "commands"),
    }


@pytest.mark.parametrize("way", ["link out", "link chain"])
def test_names_of_a_strangers_links_reach_no_file_of_the_user(
    way: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threats 4 and 24: instructions and attachments show nothing that lies outside."""
    beside = repository.parent / "beside"
    beside.mkdir()
    for name in ("AGENTS.md", "CLAUDE.md", "notes.txt"):
        WAYS[way](repository / name, CANARY, beside)
    monkeypatch.chdir(_start_in_repository(repository))
    app = App(start(Arguments(trust=True), may_ask=False), one_shot=True)

    message = asyncio.run(
        Attachments(repository, outside=app.why_outside).message("see @notes.txt @AGENTS.md")
    )
    assert CANARY not in str(message.content)


@pytest.mark.parametrize("way", ["link out", "link chain", "state"])
def test_batch_folder_of_a_stranger_is_not_used(
    way: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 24: neither its state nor the folder that a link leads to."""
    beside = repository.parent / "beside"
    beside.mkdir()
    place = repository / "tasks.batch"
    if way == "state":
        place.mkdir()
        (place / "attempts.jsonl").write_text('{"id": "a", "number": 1, "fingerprint": "x"}\n')
    else:
        (beside / "victim").mkdir()
        place.symlink_to(beside / "victim")
    monkeypatch.chdir(_start_in_repository(repository))

    try:
        with BatchFolder(place) as folder:
            assert (way, folder.attempts) == ("state", [])
            assert not (paths.state_dir() / "batches").is_relative_to(repository)
    except AgentCliError as error:
        assert way != "state"
        assert "link" in str(error)
        assert [*(beside / "victim").iterdir()] == []


def test_users_file_that_leads_into_the_workspace_is_the_repositorys(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threats 5 and 24: a repository of dotfiles is opened; its text is not the user's word."""
    from agent_cli.plugins.instruction_files import InstructionFiles  # noqa: PLC0415

    (repository / "mine.md").write_text(CANARY)
    shared = paths.shared_instructions_file()
    shared.parent.mkdir(parents=True, exist_ok=True)
    shared.symlink_to(repository / "mine.md")
    monkeypatch.chdir(_start_in_repository(repository))
    files = InstructionFiles(
        repository,
        repository,
        is_secret=lambda _path: False,
        warn=lambda _text: None,
        user_files=[shared],
    )

    assert [each.source for each in files.at_start() if each.path == shared] == ["repository"]
