"""Agent definition files: the effect of each field, and the messages about unusable files."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.agents.definitions import (
    BUILT_IN,
    AgentCatalogue,
    AgentDefinition,
    AgentFolder,
    parse_definition,
)
from tests.tables import each_row

REVIEWER = """---
name: code-reviewer
description: >
  When to use it.
  "Use proactively after code changes."
tools: Read, Grep, Glob, Bash(git diff:*), Agent(explore)
disallowedTools: Write, Edit
model: haiku
effort: max
permissionMode: acceptEdits
maxTurns: 30
skills: [pdf, release]
mcpServers:
- github
- docs
background: true
isolation: worktree
memory: project
omitClaudeMd: true
color: cyan
maxCost: $0.50
---
You are a reviewer.
"""


def parsed(**fields: str) -> AgentDefinition:
    lines = [
        f"{name}: {value}" for name, value in {"name": "x", "description": "d", **fields}.items()
    ]
    return parse_definition("\n".join(["---", *lines, "---", "Do."]), "x.md")


@pytest.mark.parametrize("name", ["CSharpExpert", "4.1-Beast", "learn_contributor"])
def test_agents_names_as_published_ones_have_them_are_accepted(name: str) -> None:
    assert parsed(name=name).name == name


def test_agent_definition_of_claude_code_works_unchanged() -> None:
    """Every field keeps its meaning; an unsupported one is reported, and is no error."""
    agent = parse_definition(REVIEWER, "a.md")

    assert agent == AgentDefinition(
        name="code-reviewer",
        description='When to use it. "Use proactively after code changes."',
        prompt="You are a reviewer.",
        source="a.md",
        tools=("read", "grep", "glob", "bash", "agent"),
        denied_tools=("write", "edit"),
        model="haiku",
        effort="xhigh",
        mode="auto-edit",
        max_rounds=30,
        max_cost_usd=0.5,
        skills=("pdf", "release"),
        servers=("github", "docs"),
        has_instructions=False,
        in_background=True,
        is_isolated=True,
        unknown=("memory",),
    )


@each_row(
    "written",
    [
        "Read, Grep",
        "[Read, 'Grep']",
        "Read(a, b), Grep(c, d)",
        "\n  - Read\n  - Grep",
        "\n- Read\n- Grep",
    ],
)
def test_list_in_an_agent_definition_may_have_any_yaml_form(written: str) -> None:
    assert parsed(tools=written).tools == ("read", "grep")


@each_row(
    ("written", "tools"),
    [("[]", ()), ("[ ]", ()), ("", None), ("'*'", None), ("[Nope]", ("Nope",))],
)
def test_empty_list_of_tools_gives_none(written: str, tools: tuple[str, ...] | None) -> None:
    """Only a missing list gives all."""
    assert parsed(tools=written).tools == tools


def test_agent_whose_name_is_a_title_is_called_by_its_file() -> None:
    """As published ones are written; the name may also be missing."""
    for name in ("name: Frontend Developer\n", ""):
        text = f"---\n{name}description: Builds pages.\n---\nDo."
        assert parse_definition(text, "a/web-dev.md", stem="web-dev").name == "web-dev"


def test_name_of_an_agent_may_have_a_dot() -> None:
    assert parsed(name="review.v2").name == "review.v2"


@pytest.mark.parametrize(
    ("written", "model"), [("inherit", ""), ("Opus", "Opus"), ("my-id", "my-id")]
)
def test_agent_model_is_an_alias_an_id_or_inherited(written: str, model: str) -> None:
    assert parsed(model=written).model == model


@each_row(
    ("fields", "said"),
    [
        ({"name": "My Agent"}, "its name 'My Agent' must be of the letters a to z, digits, -, _ "),
        ({"description": ""}, "it has no description"),
        ({"maxTurns": "many"}, "its maxTurns must be a whole number, not 'many'"),
        ({"maxCost": "-1"}, "its maxCost must be a number of US dollars up to 1,000,000, not '-1'"),
        ({"maxCost": "1e305"}, "its maxCost must be a number of US dollars up to 1,000,000"),
        ({"maxCost": "nan"}, "its maxCost must be a number of US dollars up to 1,000,000"),
        ({"permissionMode": "god"}, "its permissionMode must be one of default, "),
        ({"effort": "big"}, "its effort must be one of off, "),
        ({"omitClaudeMd": "maybe"}, "its omitClaudeMd must be true or false, not 'maybe'"),
    ],
)
def test_error_about_an_invalid_field_names_the_field(fields: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=r"^its? ") as wrong:
        parsed(**fields)

    assert str(wrong.value).startswith(said)


def test_line_that_takes_the_description_away_is_named() -> None:
    said = r"it has no description; line 3, 'description \[x', is not of the form name: value"
    with pytest.raises(ValueError, match=said):
        parse_definition("---\nname: x\ndescription [x\n---\nDo.", "x.md")


@settings(derandomize=True)
@given(st.text(max_size=200), st.text(max_size=50))
def test_arbitrary_text_is_parsed_as_an_agent_or_refused_with_a_sentence(
    front: str, body: str
) -> None:
    for text in (front, f"---\nname: x\ndescription: d\n{front}\n---\n{body}"):
        try:
            assert parse_definition(text, "x.md").description
        except ValueError as error:
            assert str(error).startswith(("it ", "its "))


def test_built_in_agents_run_in_plan_mode_except_general() -> None:
    warned: list[str] = []
    agents = {agent.name: agent for agent in AgentCatalogue(warn=warned.append).all()}

    assert (tuple(agents), warned) == (BUILT_IN, [])
    assert [agents[name].mode for name in BUILT_IN] == ["plan", "plan", None]
    assert agents["explore"].model == "small"
    assert agents["general"].tools is None


def test_agent_files_override_built_in_agents_and_faults_are_reported_once(tmp_path: Path) -> None:
    """The user's folder overrides the workspace's; both override the built-in agents."""
    mine, project = tmp_path / "mine", tmp_path / "project"
    outside = tmp_path / "outside.md"
    for folder in (mine, project):
        folder.mkdir()
    definition = "---\nname: {}\ndescription: {}\nwings: 2\n---\nDo."
    (mine / "a.md").write_text(definition.format("explore", "mine"))
    (project / "a.md").write_text(definition.format("explore", "theirs"))
    (project / "b.md").write_text("no front matter")
    (project / "big.md").write_text("x" * 300_000)
    outside.write_text(definition.format("spy", "out"))
    (project / "link.md").symlink_to(outside)
    warned: list[str] = []
    folders = [AgentFolder(mine), AgentFolder(project, inside=project)]
    catalogue = AgentCatalogue(folders, warn=warned.append)

    explore = catalogue.get("explore")

    assert explore
    assert explore.description == "mine"
    assert catalogue.get("spy") is None
    assert [agent.name for agent in catalogue.all()] == [*BUILT_IN]
    assert warned == [
        f"agent {mine / 'a.md'}: unknown fields are ignored: wings",
        f"agent {project / 'a.md'}: unknown fields are ignored: wings",
        f"agent {project / 'b.md'} is not used: it does not begin with front matter between two"
        " lines of ---",
        f"agent {project / 'big.md'} is not used: it has more than 256 KB",
        f"agent {project / 'link.md'} is not used: it leads out of the workspace",
    ]


def test_plugin_agent_gets_the_plugins_name_as_a_prefix_if_its_name_is_taken(
    tmp_path: Path,
) -> None:
    """A plugin's agent never replaces another agent; a plugin is read once."""
    definition = "---\nname: {}\ndescription: {}\n---\nDo."
    for plugin in ("first", "second"):
        (tmp_path / plugin).mkdir()
        (tmp_path / plugin / "a.md").write_text(definition.format("explore", plugin))
        (tmp_path / plugin / "b.md").write_text(definition.format("sorter", plugin))
    (tmp_path / "first" / "c.md").write_text("no front matter")
    warned: list[str] = []
    catalogue = AgentCatalogue(warn=warned.append)
    folders = {name: [AgentFolder(tmp_path / name)] for name in ("first", "second", "gone")}

    catalogue.add_plugins(folders)
    catalogue.add_plugins(folders)

    assert [(agent.name, agent.description) for agent in catalogue.all()][len(BUILT_IN) :] == [
        ("first:explore", "first"),
        ("sorter", "first"),
        ("second:explore", "second"),
        ("second:sorter", "second"),
    ]
    assert warned == [
        f"agent {tmp_path / 'first' / 'c.md'} is not used: it does not begin with front matter"
        " between two lines of ---",
        f"agents of plugin 'gone' are not used: {tmp_path / 'gone'} is not a directory",
    ]


def test_agents_of_a_folder_changed_after_trust_are_not_used(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\nname: a\ndescription: d\n---\nDo.")
    warned: list[str] = []
    folders = [AgentFolder(tmp_path, inside=tmp_path)]
    catalogue = AgentCatalogue(folders, warn=warned.append, objection=lambda: "it changed")

    assert catalogue.get("a") is None
    assert warned == [f"agents of {tmp_path} are not used: it changed"]


def test_definitions_in_folders_of_folders_are_found(tmp_path: Path) -> None:
    """As Claude Code finds them; the first of a name wins, by path."""
    for name in ("top.md", "team/nested.md", "team/deep/deeper.md", "team/top.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"---\nname: {path.stem}\ndescription: {name}\n---\nDo.\n")

    catalogue = AgentCatalogue([AgentFolder(tmp_path)], warn=pytest.fail)

    found = {agent.name: agent.description for agent in catalogue.all()[len(BUILT_IN) :]}
    assert found == {
        "top": "top.md",
        "nested": "team/nested.md",
        "deeper": "team/deep/deeper.md",
    }
