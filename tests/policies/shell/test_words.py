"""Words read without the parser: their value in bash, if it can be known."""

import re
import shutil
import subprocess
import sys
from random import Random

import pytest

from agent_cli.policies.shell.braces import TooManyWords, unbraced
from agent_cli.policies.shell.words import (
    NotLiteral,
    Word,
    likely_word,
    literal_word,
    literal_words,
)
from tests.tables import each_row


@each_row(
    ("source", "expected"),
    [
        ("a", Word("a")),
        ("*.py", Word("*.py", glob=True)),
        ("'*.py'", Word("*.py")),
        ("'$x'", Word("$x")),
        (r'"\$x"', Word("$x")),
        ("a~b", Word("a~b")),
        ("!", Word("!")),
        ("é", Word("é")),
    ],
)
def test_literal_word_equals_the_argument_bash_passes(source: str, expected: Word) -> None:
    assert literal_word(source) == expected


def in_heredoc(text: str, mark: str = "EOF") -> str:
    return f"\"$(cat <<'{mark}'\n{text}{mark}\n)\""


@pytest.mark.parametrize(
    "text",
    [
        'fix(words): don\'t expand\n\nIt `runs` "$(rm x)" \\ and $HOME\n',
        "one\n\n\n",
        "",
        ' EOF\n)"\n',
        "a ) unbalanced ' quote\n",
    ],
)
def test_text_in_a_quoted_heredoc_is_the_argument_bash_passes(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How models write commit messages: a rule for `git commit` used to ask each time."""
    monkeypatch.setattr(sys, "platform", "linux")
    bash = shutil.which("bash")
    assert bash is not None
    source = in_heredoc(text)
    passed = subprocess.run([bash, "-c", f"printf %s {source}"], stdout=subprocess.PIPE, check=True)

    assert literal_word(source) == Word(passed.stdout.decode())


@each_row(
    "source",
    [
        in_heredoc("a\n").replace("'", ""),
        in_heredoc("a\nEOF\nrm x\n"),
        in_heredoc("a\n").replace("\n)", "\nrm x\n)"),
        in_heredoc("a\n").replace("'\n", "' x.txt\n", 1),
        in_heredoc("a\n").replace("'\n", "' | sh\n", 1),
        in_heredoc("a\n").replace("cat", "sh"),
        in_heredoc("a\n").replace('"', ""),
        in_heredoc("a\n") + "b",
        in_heredoc("a\n").replace("EOF\n)", "EOF)"),
        # Bash ends a heredoc in a substitution also at such lines, and runs the rest of them.
        in_heredoc("EOF touch x)\n"),
        in_heredoc("a\nEOFtouch x)\n"),
        in_heredoc("a\nEOF`touch x`)\nb\n"),
        in_heredoc("a\nEOF); touch x #\n"),
    ],
)
def test_heredoc_that_does_more_than_hold_a_text_is_refused(source: str) -> None:
    with pytest.raises(NotLiteral):
        literal_word(source)


@pytest.mark.parametrize("text", ["don't\n", "a)\n", 'say "a"\n', "a `b`\n", "a\\\n", "${\n"])
def test_text_that_old_bash_reads_differently_is_refused_where_it_may_run(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bash 3.2 of macOS ends the substitution within the heredoc."""
    monkeypatch.setattr(sys, "platform", "darwin")

    assert literal_word(in_heredoc("plain text, of\ntwo lines\n")) == Word(
        "plain text, of\ntwo lines"
    )
    with pytest.raises(NotLiteral):
        literal_word(in_heredoc(text))


@each_row(
    "source",
    [
        '"$x"',
        '"`x`"',
        "$x",
        "`x`",
        "~",
        "a=~",
        "a:~",
        "a\\b",
        "{a}",
        "a!",
        "#",
        "'a",
        '"a',
        "'*'*",
        "^a",
    ],
)
def test_a_word_that_bash_would_expand_is_refused(source: str) -> None:
    """Even if the parser accepts the word: both must agree."""
    with pytest.raises(NotLiteral):
        literal_word(source)


@each_row(
    ("source", "expected"),
    [
        (r"r\m", "rm"),
        ("r''m", "rm"),
        ('r"m"', "rm"),
        ("r\\\nm", "rm"),
        ("a*", None),
        ("{a,b}", None),
        ("$x", None),
        ('"$x"', None),
        ('"`x`"', None),
        (r"$'a\x62\143\u0064\U00000065\'\n\z'", "abcde'\n\\z"),
        (r"$'\cA\Uffffffff\ud800'", "\x01\ufffd\ufffd"),
        (r"x$'a\0b'c", "xac"),
        ('$"a"', None),
        (r"\$x", "$x"),
    ],
)
def test_likely_word_is_its_value_or_none_if_unknown(source: str, expected: str | None) -> None:
    """For deny rules: None matches any word."""
    assert likely_word(source) == expected


@each_row(
    ("source", "count"), [("a{1..100}", 100), ("a{1..10}b{1..10}", 100), ("{1..50}{a,b}", 100)]
)
def test_braces_stand_for_up_to_a_hundred_words(source: str, count: int) -> None:
    """A file name is looked at for each of them."""
    assert len(set(literal_words(source))) == count


@each_row("source", ["a{1..101}", "{1..101}{a}", "a{1..10}b{1..10}{,c}"])
def test_braces_that_stand_for_more_words_are_refused(source: str) -> None:
    with pytest.raises(NotLiteral, match="braces that stand for too many words"):
        literal_words(source)


@each_row(
    ("source", "expected"),
    [
        ("a{c..a}", ["ac", "ab", "aa"]),
        ("{a..e..2}", ["a", "c", "e"]),
        ("{5..1..-2}", ["5", "3", "1"]),
        ("{08..10}", ["08", "09", "10"]),
        ("{a,{b,c{d,e}}}", ["a", "b", "cd", "ce"]),
        ("{a}{b,c}", ["{a}b", "{a}c"]),
    ],
)
def test_braces_stand_for_the_words_of_bash(source: str, expected: list[str]) -> None:
    assert [word.text for word in literal_words(source)] == expected


def test_random_braces_stand_for_the_words_of_bash() -> None:
    """Unbalanced, empty and nested ones too; what is literal to us is so to bash.

    Left out: a sequence that is none around other braces, which bash 5.2 and 5.3 read differently.
    """
    random = Random(1)
    pieces = (
        *("{", "}", "{", ",", "}", "a", "b", "..", "1", "3", "c", "-", "0", "02", "Z", "/"),
        *("{a,b}", "{1..3}", "{a..c}", "{}", "{e..a..2}"),
    )
    drawn = {"".join(random.choices(pieces, k=random.randint(2, 10))) for _ in range(2_200)}
    inner = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
    words = [each for each in drawn - {"{,}"} if not re.search(r"\{.*\.\.", inner.sub("", each))]
    script = "".join(f"printf '%s\\0' {word}; printf '\\n\\0'\n" for word in words)
    bash = shutil.which("bash")
    assert bash

    printed = subprocess.run(
        [bash], input=script, capture_output=True, text=True, check=True
    ).stdout

    for word, lines in zip(words, printed.split("\n\0"), strict=False):
        expected = lines.split("\0")[:-1]
        assert [each for each in unbraced(word, words_max=1_000) if each] == expected, word


@each_row("source", ["{a,b}" * 10, "{1..99999999}", "{a," * 60 + "}" * 60, "{a" * 201 + ",b}"])
def test_braces_that_are_too_many_or_too_deep_are_refused(source: str) -> None:
    """Quickly."""
    with pytest.raises(TooManyWords):
        list(unbraced(source, words_max=1_000))
