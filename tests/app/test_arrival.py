"""The user's files of other agents count on arrival."""

from pathlib import Path

from agent_cli.app.agents import catalogue
from agent_cli.app.arguments import parse_arguments
from agent_cli.app.plugins import command_files, skill_texts
from agent_cli.app.startup import start


def test_agents_skills_and_commands_of_claude_code_are_the_users() -> None:
    """In an untrusted workspace too: they lie in the home directory. Ours come first."""
    claude, ours = Path.home() / ".claude", Path.home() / ".config" / "agent-cli"
    for path, text in {
        claude / "agents" / "critic.md": "---\nname: critic\ndescription: Reads.\n---\ntheirs",
        ours / "agents" / "critic.md": "---\nname: critic\ndescription: Ours.\n---\nours",
        claude / "agents" / "judge.md": "---\nname: judge\ndescription: Judges.\n---\nweigh",
        claude / "skills" / "brew" / "SKILL.md": "---\nname: brew\ndescription: x\n---\nboil",
        claude / "commands" / "tidy.md": "tidy up",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    startup = start(parse_arguments(["-p", "x"]), may_ask=False)

    agents = {each.name: each for each in catalogue(startup, warn=lambda _text: None).all()}

    assert agents["critic"].description == "Ours."
    assert "judge" in agents
    assert "boil" in skill_texts(startup, ["brew"])[0]
    assert {"tidy", "brew"} <= {each.name for each in command_files(startup).commands()}
