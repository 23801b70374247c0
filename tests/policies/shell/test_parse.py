"""Which scripts say all they do, and the words a program gets."""

import pytest

from agent_cli.policies.shell import SimpleCommand, Unknown, parse


def words(script: str) -> list[list[str]]:
    commands = parse(script)
    assert not isinstance(commands, Unknown), commands
    return [[word.text for word in command.words] for command in commands]


def construct(script: str) -> str:
    unknown = parse(script)
    assert isinstance(unknown, Unknown)
    return unknown.construct


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("ls -la 'a b'\"c\"d", [["ls", "-la", "a bcd"]]),
        ("a | b && c || d; e\nf # comment", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        (r'''echo "\$ \" \\ \` \n"''', [["echo", '$ " \\ ` \\n']]),
        ('echo "a\\\nb"', [["echo", "ab"]]),
        (r"echo '\$x'", [["echo", r"\$x"]]),
        ('echo "" é HEAD~1', [["echo", "", "é", "HEAD~1"]]),
        ("ls 2>/dev/null >/dev/null 2>&1", [["ls"]]),
        ("a &&\n b", [["a"], ["b"]]),
        ("a # b \\\nc", [["a"], ["c"]]),
    ],
)
def test_quotes_are_read_as_bash_reads_them(script: str, expected: list[list[str]]) -> None:
    """Double quotes know five escapes; in all others the backslash stays."""
    assert words(script) == expected


def test_a_command_knows_what_joins_it_to_the_one_before() -> None:
    """A `cd` in a pipeline changes another shell's folder than one behind &&."""
    commands = parse("a | b && c\nd")

    assert not isinstance(commands, Unknown)
    assert [command.after for command in commands] == ["", "|", "&&", "\n"]
    assert isinstance(commands[0], SimpleCommand)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo x > out.txt", "redirect > out.txt"),
        ("cat 2>/dev/null .env", "words behind a redirect: 2>/dev/null .env"),
        ("> out.txt ls", "a redirect before the end of a command"),
        ("echo $(ls)", "command substitution: $(ls)"),
        ("for i in $(seq 60); do echo line $i; done", "for statement, which no rule can judge"),
        ("ls $x", "simple expansion: $x"),
        ("ls ~", "a tilde"),
        ("ls x=~", "a tilde"),
        ("ls {a,b}", "a brace"),
        (r"ls a\ b", "a backslash"),
        ("ls \\\n a", "text the parser passes over"),
        ("\\\nls", "text the parser passes over"),
        ("ls a;#b", "a number sign that may not begin a comment"),
        ("ls 'a'*", "a pattern with quotes in it"),
        ("l? a", "a pattern for a program's name"),
        ("ls &", "operator &"),
        ("ls 'a", "a syntax error, or syntax unknown here"),
        ("ls\ra", "the character U+000D"),
        ("ls \u202ea", "the character U+202E"),
        ("ls\u00a0a", "the character U+00A0"),
        ("ls \udcff", "the character U+DCFF"),
        ("ls " + "a" * 10_000, "more than 10,000 characters"),
        ("ls && " * 100 + "ls", "more than 50 commands joined"),
        ("", "no command at all"),
        ("# only a comment", "no command at all"),
    ],
)
def test_what_makes_a_script_unreadable_is_named(script: str, expected: str) -> None:
    """The person who is asked reads why."""
    assert construct(script) == expected


def test_every_word_is_separated_from_the_next_by_blanks() -> None:
    """What the parser takes for two words and bash for one would be judged as neither."""
    for script in ("ls>/dev/null", "a2>/dev/null", "ls>&2"):
        assert isinstance(parse(script), Unknown)
