"""Words read without the parser: their value in bash, if it can be known."""

import pytest

from agent_cli.policies.shell.words import (
    NotLiteral,
    Word,
    likely_word,
    literal_word,
    literal_words,
)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
        ("$'a'", None),
        (r"\$x", "$x"),
    ],
)
def test_likely_word_is_its_value_or_none_if_unknown(source: str, expected: str | None) -> None:
    """For deny rules: None matches any word."""
    assert likely_word(source) == expected


@pytest.mark.parametrize(
    ("source", "count"), [("a{1..100}", 100), ("a{1..10}b{1..10}", 100), ("{1..50}{a,b}", 100)]
)
def test_braces_stand_for_up_to_a_hundred_words(source: str, count: int) -> None:
    """A file name is looked at for each of them."""
    assert len(set(literal_words(source))) == count


@pytest.mark.parametrize("source", ["a{1..101}", "{1..101}{a}", "a{1..10}b{1..10}{,c}"])
def test_braces_that_stand_for_more_words_are_refused(source: str) -> None:
    with pytest.raises(NotLiteral, match="braces that stand for too many words"):
        literal_words(source)
