"""Scripts that the parser understands completely, and the words of each program in them."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from agent_cli.policies.shell import SimpleCommand, Unknown, parse, simple_commands
from agent_cli.policies.shell.syntax import descendants, syntax_tree
from agent_cli.policies.shell.words import NotLiteral
from tests.tables import each_row


def words(script: str) -> list[list[str]]:
    commands = parse(script)
    assert not isinstance(commands, Unknown), commands
    return [[word.text for word in command.words] for command in simple_commands(commands)]


def construct(script: str) -> str:
    unknown = parse(script)
    assert isinstance(unknown, Unknown)
    return unknown.construct


@each_row(
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
        ("a \\\n  b \\\n\\\n && \\\nc", [["a", "b"], ["c"]]),
        ("a b <<'E' | c\n$(d)\nE\ne", [["a", "b"], ["c"], ["e"]]),
    ],
)
def test_parser_reads_quotes_as_bash_does(script: str, expected: list[list[str]]) -> None:
    """Double quotes know five escapes; before other characters the backslash stays."""
    assert words(script) == expected


@each_row(
    ("script", "expected"),
    [
        ("ls {a,b}.py x{1..3} {}", [["ls", "a.py", "b.py", "x1", "x2", "x3", "{}"]]),
        ("ls {a,}{b,c} HEAD@{1}", [["ls", "ab", "ac", "b", "c", "HEAD@{1}"]]),
        ("ls {,} '{a,b}'", [["ls", "{a,b}"]]),
        ("a && (b; c) | { d; e; }", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("if a; then b; elif c; then d; else e; fi", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ('for f in x "y z"; do a "$f.py"; done', [["a", "x.py"], ["a", "y z.py"]]),
        ("for f in x y\ndo\n a $f # c\n b\ndone", [["a", "x"], ["b"], ["a", "y"], ["b"]]),
        ("! a | b", [["a"], ["b"]]),
        ("[ -f a ] && [[ b == c* && ! -d d ]]", None),
        (r"find . \( -name a \) -exec b {} \;", None),
        ('grep "a$" b', [["grep", "a$", "b"]]),
        ("a < b | c", [["a"], ["c"]]),
    ],
)
def test_parser_finds_commands_in_braces_loops_and_conditions(
    script: str, expected: list[list[str]] | None
) -> None:
    """Each command has the words it will get from the shell."""
    others = {
        "[ -": [["[", "-f", "a", "]"], ["[[", "b", "==", "c*", "&&", "!", "-d", "d", "]]"]],
        "fin": [["find", ".", "(", "-name", "a", ")", "-exec", "b", "{}", ";"]],
    }
    assert words(script) == (expected or others[script[:3]])


def test_loop_value_of_several_words_is_not_substituted_without_quotes() -> None:
    """Bash splits such a value, and expands it as a pattern."""
    with pytest.raises(NotLiteral, match="several words"):
        words('for f in "y z"; do a ${f}; done')


@each_row("name", ["PATH", "IFS", "http_proxy", "histchars", "BASH_ENV", "F"])
def test_loop_that_sets_a_special_variable_is_refused(name: str) -> None:
    """`for PATH in bin` would choose the programs of its own body."""
    assert construct(f"for {name} in a; do ls; done") == f"contains a loop that sets {name}"


def test_each_command_records_the_operator_before_it() -> None:
    """A `cd` in a pipeline acts in a subshell, unlike one after &&."""
    commands = parse("a | b && c\nd")

    assert not isinstance(commands, Unknown)
    assert [command.after for command in commands] == ["", "|", "&&", "\n"]
    assert isinstance(commands[0], SimpleCommand)


@each_row(
    ("script", "expected"),
    [
        ("echo x > out.txt", "contains a redirect: > out.txt"),
        ("cat 2>/dev/null .env", "contains words behind a redirect: 2>/dev/null .env"),
        ("> out.txt ls", "contains a redirect before the end of a command"),
        ("echo $(ls)", "contains a command substitution: $(ls)"),
        ("for i in $(seq 60); do echo line $i; done", "contains a command substitution: $(seq 60)"),
        ("ls $x", "contains $x, whose value is not known"),
        ("ls ~", "contains a tilde"),
        ("ls x=~", "contains a tilde"),
        ("ls {a,{b}", "contains a brace"),
        ("ls {1..1000}", "contains braces that stand for too many words"),
        ("ls {Z..b}", "contains a backslash"),
        ("{}; ls", "contains a brace"),
        ("{ls; }", "contains a brace"),
        ("! ! ls", "contains a program whose name is not certain"),
        (r"ls a\ b", "contains a backslash"),
        ("ls\\\n a", "contains text that the parser skips"),
        ("\\\nls", "contains text that the parser skips"),
        ("ls a;#b", "contains a # that may not begin a comment"),
        ("ls 'a'*", "contains a pattern with quotes in it"),
        ("l? a", "contains a program whose name is not certain"),
        ("ls &", "contains the operator &"),
        ("ls 'a", "contains syntax that cannot be parsed"),
        ("ls\ra", "contains the character U+000D"),
        ("ls \u202ea", "contains the character U+202E"),
        ("ls\u00a0a", "contains the character U+00A0"),
        ("ls \udcff", "contains the character U+DCFF"),
        ("ls " + "a" * 10_000, "is longer than 10,000 characters"),
        ("ls && " * 100 + "ls", "contains more than 50 commands joined"),
        ("", "contains no command"),
        ("# only a comment", "contains no command"),
    ],
)
def test_construct_that_the_parser_cannot_read_is_named(script: str, expected: str) -> None:
    """The approval prompt shows it as the reason."""
    assert construct(script) == expected


@pytest.mark.parametrize(
    "script", ["ls " + "a" * 9_997, "ls && " * 49 + "ls"], ids=["characters", "joined"]
)
def test_longest_script_is_read_whole(script: str) -> None:
    """One more of either is refused, as shown above."""
    commands = parse(script)
    longer = script.replace("ls ", "ls  ", 1) if "&&" not in script else f"{script} && ls"

    assert not isinstance(commands, Unknown)
    assert isinstance(parse(longer), Unknown)


@pytest.mark.parametrize(
    ("length", "shown"),
    [(35, f": $({'a' * 35})"), (38, f": $({'a' * 37})"), (39, "")],
    ids=["short", "longest", "left out"],
)
def test_construct_is_quoted_where_it_is_short(length: int, shown: str) -> None:
    """The whole command stands above the reason."""
    script = f"ls $({'a' * min(length, 37)})" if length < 39 else f"ls $({'a' * 38})"

    assert construct(script) == f"contains a command substitution{shown}"


def test_script_with_words_not_separated_by_blanks_is_refused() -> None:
    """Such text could be two words for the parser but one for bash."""
    for script in ("ls>/dev/null", "a2>/dev/null", "ls>&2"):
        assert isinstance(parse(script), Unknown)


def test_a_tree_is_looked_through_as_often_as_asked_from_its_beginning() -> None:
    """The nodes of a whole tree are kept; who stops early changes nothing for the next."""
    tree = syntax_tree("a b; (c)")
    assert next(descendants(tree)).type == "program"

    whole = [*descendants(tree)]

    kinds = "program command command_name word word ; subshell ( command command_name word )"
    assert [each.type for each in whole] == kinds.split()
    assert [*descendants(tree)] == whole == [*descendants(tree, is_leaf=lambda _node: False)]


def test_long_scripts_are_parsed_in_several_threads_at_once() -> None:
    """An embedder may run several sessions; a parser that two threads used ended the process."""
    scripts = [f"echo {number}\n" + "cat <<E\n`ls` $x\nE\n" * 400 for number in range(24)]
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            trees = [*pool.map(syntax_tree, scripts)]
    finally:
        sys.setswitchinterval(interval_s)

    assert [len(tree.children) for tree in trees] == [len(syntax_tree(scripts[0]).children)] * 24
