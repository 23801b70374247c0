"""Secret detection: strings that count as secrets, and ordinary text left unchanged."""

from itertools import product

from agent_cli.system.redaction import Redactor, is_secret_name
from tests.tables import each_row


@each_row(
    ("text", "shown"),
    [
        ("key sk-ant-api03-abc_DEF-1 end", "key *** end"),
        ("Authorization: Bearer abc.def-123=", "Authorization: Bearer ***"),
        ("https://user:pass@host/x", "https://***@host/x"),
        ("http://h/?a=1&access_token=abc&b=2", "http://h/?a=1&access_token=***&b=2"),
        ("http://h/?auth=abc#id_token=abc", "http://h/?auth=***#id_token=***"),
        ("let x=1;e.key=t", "let x=1;e.key=t"),
        ("http://h/cb?code=4/0AX4XfWh-abc_def12&s=1", "http://h/cb?code=***&s=1"),
        ("http://h/?code=404&code=invalid_grant", "http://h/?code=404&code=invalid_grant"),
        ('{"api_key": "abcdefgh"}', '{"api_key": "***"}'),
        ("password=hunter22 next", "password=*** next"),
        ("max_tokens=32000 tokens: 123456", "max_tokens=32000 tokens: 123456"),
        ("the bearer of news, a token of love", "the bearer of news, a token of love"),
        ("mail me@example.com", "mail me@example.com"),
        (f"T=sk_live_{'Z8k3' * 6} x", "T=sk_live_*** x"),
        (f"ghp_{'Ab12' * 9}", "ghp_***"),
        (f"xoxb-{'12-ab' * 5},AIza{'Sy_-D4' * 6}", "xoxb-***,AIza***"),
        ("npm_config_user ghp_short disk_live_0123456789abcdef0", ""),
    ],
)
def test_secrets_are_recognised_by_their_shape(text: str, shown: str) -> None:
    assert Redactor().text(text) == (shown or text)


def test_secrets_of_the_environment_are_masked_by_value() -> None:
    """The longest is masked first, so that no tail of a longer secret remains."""
    environment = {
        "MY_TOKEN": "abcdefgh",
        "OTHER_API_KEY": "abcdefgh-ijkl",
        "SHORT_KEY": "1",
        "LONGER_KEY": "tuesday",  # of seven letters, one too few
        "EDITOR": "emacs-nox",
    }

    assert Redactor.of(environment).text("1 tuesday abcdefgh-ijkl abcdefgh emacs-nox") == (
        "1 tuesday *** *** emacs-nox"
    )


def test_a_commands_secret_arguments_are_masked() -> None:
    arguments = ("--token", "x", "-y", "name", "--api-key=abcdefgh")

    assert Redactor().arguments(arguments) == ("--token", "***", "-y", "name", "--api-key=***")


@each_row(
    ("name", "is_secret"),
    [
        ("ANTHROPIC_API_KEY", True),
        ("x-api-key", True),
        ("GH_TOKEN", True),
        ("GOOGLE_CLIENT_SECRET", True),
        ("max_tokens", False),
        ("KEYBOARD", False),
        ("PATH", False),
    ],
)
def test_secret_variable_names_are_recognised_by_their_words(name: str, is_secret: bool) -> None:
    assert is_secret_name(name) is is_secret


_PIECES = (
    *("sk-ant-", "AKIA", "asia", "ABSK", "bedrock-api-key-", "ya29.", "Signature=", "bearer "),
    *("https://", "?code=", "&key=", "#auth=", "?x-signature=", "password", "secret", "token"),
    *("api_key", "api-key", "=", ": ", "'", "sk_live_", "rk_test_", "ghp_", "ghu_", "hf_", "npm_"),
    *("github_pat_", "glpat-", "xoxb-", "sk-proj-", "AIza", "a"),
)


def test_most_shapes_are_not_tried_and_yet_all_secrets_found() -> None:
    """In a text that is not ASCII all are tried: other letters count as ASCII ones, too."""
    redactor, masked = Redactor(), 0

    for first, second, end in product(_PIECES, _PIECES, ("", "@")):
        text = f"{first}{second}{'0123456789abcdef' * 4}{end}"
        for each in (text, text.swapcase()):
            shown = redactor.text(f"{each} ſ").removesuffix(" ſ")
            assert redactor.text(each) == shown
            masked += shown != each

    assert masked > 1_000
