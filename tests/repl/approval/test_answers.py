"""The answers to a question about waiting calls."""

from agent_cli.repl.approval.answers import answers_to, rule_in_words
from tests.tables import each_row


def test_answer_that_stores_a_rule_for_changes_names_the_whole_workspace() -> None:
    """S4-26: the rule for `src/a.py` covers `b.py` too, so "this folder" said too little."""
    assert rule_in_words("edit(./**)") == "all edits in the workspace"
    assert rule_in_words("write(./**)") == "all files written in the workspace"


@each_row(
    ("rules", "words"),
    [
        (["bash(touch *)"], "commands that begin with `touch`"),
        (
            ["bash(touch *)", "edit(./**)", "bash(ls -la *)", "bash(mv *)"],
            "commands that begin with `touch`, `ls -la` or `mv` and all edits in the workspace",
        ),
        (
            ["mcp__my-db__read", "mcp__my-db__list", "bash(ls)"],
            "all calls of mcp__my-db__read, all calls of mcp__my-db__list and the command `ls`",
        ),
    ],
)
def test_answer_that_stores_several_rules_reads_as_a_sentence(rules: list[str], words: str) -> None:
    """It read "all that mcp__db__read covers, commands that begin with …" in a row."""
    offered = answers_to(
        [1],
        rules=[rules],
        project_file=None,
        edited="",
        is_folded=False,
        can_explain=False,
        of=0,
    )

    assert f"Yes, and {words} this session" in [choice.label for choice in offered]
