"""A start in a folder of a repository: what the folders above it, up to the root, bring along."""

import json
import subprocess
import sys
from pathlib import Path
from types import FrameType

import pytest

from agent_cli.app.agents import catalogue
from agent_cli.app.arguments import Arguments, parse_arguments
from agent_cli.app.mcp import configured_servers
from agent_cli.app.plugins import command_files, output_styles, skill_texts
from agent_cli.app.startup import StartupContext, start
from agent_cli.mcp_client import ServerConfig
from agent_cli.trust.effects import what_would_act
from agent_cli.trust.store import TrustStore, acting_files, shown_name
from tests.e2e.program import agent_cli


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository; its root and its package `pay` have commands, a skill, agents and servers."""
    root = tmp_path / "shop"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").touch()
    (root / "tools").mkdir()
    (root / "tools" / "serve.sh").write_text("cat > /dev/null\n")
    _fill(root, "root", server={"command": "sh", "args": ["tools/serve.sh"]})
    _fill(root / "packages" / "pay", "pay", server={"command": "true"})
    return root


def _fill(folder: Path, name: str, *, server: dict[str, object]) -> None:
    head = f"---\nname: {{}}\ndescription: of {name}\n---\n{name}\n"
    for path, text in {
        ".claude/commands/both.md": f"{name}\n",
        f".claude/commands/only-{name}.md": f"{name}\n",
        f".claude/skills/skill-{name}/SKILL.md": head.format(f"skill-{name}"),
        ".claude/agents/both.md": head.format("both"),
        f".claude/agents/agent-{name}.md": head.format(f"agent-{name}"),
        f".claude/output-styles/style-{name}.md": f"{name}\n",
        ".mcp.json": json.dumps({"mcpServers": {"both": server, f"server-{name}": server}}),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def _found(startup: StartupContext) -> dict[str, list[str]]:
    """Return the names that start with the name of a folder of the fixture, or are in both."""

    def known(names: list[str]) -> list[str]:
        return [name for name in names if name.startswith(("both", "only", "s", "agent-"))]

    commands = [each for each in command_files(startup).commands() if not each.problem]
    agents = catalogue(startup, warn=lambda _text: None).all()
    return {
        "commands": known([each.name for each in commands]),
        "agents": known([each.name for each in agents]),
        "styles": known([*output_styles(startup, print).names()]),
        "servers": [each.name for each in configured_servers(startup)],
    }


def test_root_of_the_repository_brings_its_prompts_and_servers_the_nearest_first(
    root: Path,
) -> None:
    """Claude Code and Codex walk up too; of two with one name, the nearest counts."""
    pay = root / "packages" / "pay"
    TrustStore.of_user().trust(pay)

    startup = start(Arguments(), may_ask=False, workspace=pay)
    found = _found(startup)
    agents = {each.name: each.description for each in catalogue(startup, warn=print).all()}
    servers = [each for each in configured_servers(startup) if isinstance(each, ServerConfig)]

    assert found == {
        "commands": ["both", "only-pay", "both", "only-root", "skill-pay", "skill-root"],
        "agents": ["agent-pay", "both", "agent-root"],
        "styles": ["style-pay", "style-root"],
        "servers": ["both", "server-pay", "both", "server-root"],
    }
    assert agents["both"] == "of pay"
    assert skill_texts(startup, ["skill-root"]) == ["[skill skill-root]\nroot"]
    assert [Path(each.cwd) for each in servers] == [pay, pay, root, root]


def test_nothing_of_the_root_acts_without_trust(root: Path) -> None:
    """The wall is the same: a stranger's repository brings nothing by way of its root either."""
    api = root / "packages" / "api"
    api.mkdir()

    startup = start(Arguments(), may_ask=False, workspace=api)

    assert _found(startup) == {"commands": [], "agents": [], "styles": [], "servers": []}
    assert any("../../.mcp.json" in notice for notice in startup.notices)


def test_trust_in_the_root_covers_its_files_below_until_they_change(root: Path) -> None:
    """Nobody wants to answer in each package; a package's own files are asked about."""
    api = root / "packages" / "api"
    api.mkdir()
    store = TrustStore.of_user()
    store.trust(root)
    trusted, with_own = store.standing(api), store.standing(root / "packages" / "pay")

    (root / "tools" / "serve.sh").write_text("rm -rf ~\n")

    assert (trusted.is_trusted, with_own.is_trusted) == (True, False)
    assert not store.is_trusted(api)


def test_skill_of_the_root_that_changes_during_a_session_is_not_used(root: Path) -> None:
    """As its commands and agents: `git pull` in another terminal would put words in."""
    api = root / "packages" / "api"
    api.mkdir()
    TrustStore.of_user().trust(root)
    startup = start(Arguments(), may_ask=False, workspace=api)
    before = skill_texts(startup, ["skill-root"])

    (root / ".claude/skills/skill-root/SKILL.md").write_text(
        "---\nname: skill-root\ndescription: x\n---\nnew\n"
    )

    assert before == ["[skill skill-root]\nroot"]
    assert "new" not in skill_texts(startup, ["skill-root"])[0]


def test_trust_revoked_below_a_trusted_root_stays_revoked(root: Path) -> None:
    """Who revokes it means this folder."""
    api = root / "packages" / "api"
    api.mkdir()
    store = TrustStore.of_user()
    store.trust(root)
    store.revoke(api)

    assert (store.is_trusted(root), store.is_trusted(api)) == (True, False)


def test_revoking_the_root_names_packages_with_trust_of_their_own(root: Path) -> None:
    """They may trust its files still; one that the root's trust covered is trusted no longer."""
    api, pay = root / "packages" / "api", root / "packages" / "pay"
    api.mkdir()
    store = TrustStore.of_user()
    for folder in (root, pay, root.with_name("shop-2")):
        folder.mkdir(exist_ok=True)
        (folder / ".mcp.json").write_text("{}")
        store.trust(folder)

    said = agent_cli("trust", "--revoke", str(root)).stdout

    assert said == (
        f"{root} is no longer trusted\n"
        f"still trusted by themselves: {pay}; --revoke FOLDER ends that\n"
    )
    assert (store.is_trusted(pay), store.is_trusted(api)) == (True, False)


def test_trust_in_a_package_outlives_new_trust_in_its_root(root: Path) -> None:
    """The root's files changed, and the user looked at them there."""
    pay = root / "packages" / "pay"
    store = TrustStore.of_user()
    store.trust(pay)
    (root / ".mcp.json").write_text("{}")
    changed = store.is_trusted(pay)
    store.trust(root)

    assert (changed, store.is_trusted(pay)) == (False, True)


def test_trust_in_the_root_does_not_reach_a_repository_in_it(root: Path) -> None:
    """A clone or a submodule is somebody else's."""
    inner = root / "vendor" / "lib"
    (inner / ".git").mkdir(parents=True)
    (inner / ".git" / "HEAD").touch()
    store = TrustStore.of_user()
    store.trust(root)

    assert not store.is_trusted(inner)
    assert acting_files(inner) == ()


def test_trust_in_the_root_covers_a_package_that_only_a_worktree_has(tmp_path: Path) -> None:
    """A branch adds a package, and `--worktree` starts in it: the main checkout has none yet."""
    main, tree = tmp_path / "main", tmp_path / "tree"
    main.mkdir()
    (main / ".mcp.json").write_text('{"mcpServers": {"root": {"command": "true"}}}')
    author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    for words in (
        ("init", "--quiet"),
        ("add", "."),
        (*author, "commit", "--quiet", "-m", "one"),
        ("worktree", "add", "--quiet", str(tree)),
    ):
        subprocess.run(["git", *words], cwd=main, check=True)
    (tree / "packages" / "new").mkdir(parents=True)
    store = TrustStore.of_user()
    store.trust(main)
    trusted = store.is_trusted(tree / "packages" / "new")

    (tree / ".mcp.json").write_text('{"mcpServers": {"root": {"command": "false"}}}')

    assert (trusted, store.is_trusted(tree / "packages" / "new")) == (True, False)


def test_file_that_the_user_names_starts_its_servers_in_the_workspace(root: Path) -> None:
    """Wherever it lies: below the root too, whose own servers run in the root."""
    pay, named = root / "packages" / "pay", root / "ci" / "servers.json"
    named.parent.mkdir()
    named.write_text(json.dumps({"mcpServers": {"named": {"command": "true"}}}))
    TrustStore.of_user().trust(pay)

    arguments = parse_arguments(["--mcp-config", str(named)])
    startup = start(arguments, may_ask=False, workspace=pay)
    servers = [each for each in configured_servers(startup) if isinstance(each, ServerConfig)]

    assert [each.cwd for each in servers if each.name == "named"] == [str(pay)]


def test_question_of_trust_reads_each_of_many_files_a_few_times(root: Path) -> None:
    """Not once more for each other file: 200 commands took half a minute."""
    pay = root / "packages" / "pay"
    for number in range(60):
        (root / ".claude" / "commands" / f"c{number}.md").write_text("x\n")
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    few = len(what_would_act(root / "tools"))
    sys.setprofile(count)
    try:
        found = what_would_act(pay)
    finally:
        sys.setprofile(None)

    assert len(found) > few > 0
    assert calls < 5000 * len(found)


def test_question_of_trust_says_what_files_of_the_root_do(root: Path) -> None:
    """Each by its name from here, the script that a server of the root runs included."""
    api = root / "packages" / "api"
    api.mkdir()

    told = {shown_name(each.path, api): each.effects for each in what_would_act(api)}

    command = "adds a command: its text is sent as yours when you type its name"
    assert told == {
        "../../.mcp.json": (
            "starts sh tools/serve.sh (MCP server both)",
            "starts sh tools/serve.sh (MCP server server-root)",
        ),
        "../../.claude/skills/skill-root/SKILL.md": (
            "tells the model how to do skill-root (a skill)",
            command,
        ),
        "../../.claude/agents/agent-root.md": (
            "tells an agent called agent-root what to do, when the model starts it",
        ),
        "../../.claude/agents/both.md": (
            "tells an agent called both what to do, when the model starts it",
        ),
        "../../.claude/output-styles/style-root.md": (
            "tells the model how to answer (output style style-root) if chosen",
        ),
        "../../.claude/commands/both.md": (command,),
        "../../.claude/commands/only-root.md": (command,),
        "../../tools/serve.sh": ("is a file that an MCP server runs, outside the sandbox",),
    }


def test_guards_of_the_root_that_do_not_hold_below_it_are_named(root: Path) -> None:
    """Settings are those of the folder alone; a team's rules would be missing, and nobody know."""
    api = root / "packages" / "api"
    api.mkdir()
    (root / "appsettings.toml").write_text('model = "x"\n')
    (root / ".claude" / "settings.json").write_text('{"permissions": {"deny": ["Bash"]}}')
    formatter = {"PostToolUse": [{"hooks": [{"type": "command", "command": "fmt"}]}]}
    (root / ".claude" / "settings.local.json").write_text(json.dumps({"hooks": formatter}))
    untrusted = start(Arguments(), may_ask=False, workspace=api).notices
    TrustStore.of_user().trust(root)

    notices = start(Arguments(), may_ask=False, workspace=api).notices

    assert notices == (
        "../../.claude/settings.json not read: these hooks and rules hold only if you start in"
        f" {root}",
    )
    assert not any("settings.json" in each for each in untrusted)
    assert start(Arguments(), may_ask=False, workspace=root).notices == ()


def test_import_lists_what_counts_of_the_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each where it lies, as the start in the package reads it."""
    api = root / "packages" / "api"
    api.mkdir()
    monkeypatch.chdir(api)

    listed = agent_cli("import", "claude", "--dry-run", "--trust")

    assert f"read where it lies  {root}/.mcp.json" in listed.stdout
    assert f"read where they lie  {root}/.claude/commands" in listed.stdout
