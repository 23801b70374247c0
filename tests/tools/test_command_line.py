"""The environment variables that a command gets."""

from agent_cli_tools.command_line import command_environment


def test_only_listed_environment_variables_are_passed_to_commands() -> None:
    """A deny list would miss the next key."""
    ours = {
        "PATH": "/bin",
        "HOME": "/home/u",
        "LC_ALL": "C.UTF-8",
        "ANTHROPIC_API_KEY": "CANARY",
        "GITHUB_TOKEN": "CANARY",
        "LD_PRELOAD": "/evil.so",
        "BASH_ENV": "/evil.sh",
    }

    passed = command_environment(ours)

    assert passed["PATH"] == "/bin"
    assert passed["LC_ALL"] == "C.UTF-8"
    assert passed["HOME"] == "/home/u"
    assert passed.keys().isdisjoint(ours.keys() - {"PATH", "HOME", "LC_ALL"})


def test_command_environment_disables_pagers_and_prompts() -> None:
    environment = command_environment({"TERM": "xterm", "PAGER": "less"})

    assert environment["TERM"] == "dumb"
    assert environment["PAGER"] == environment["GIT_PAGER"] == "cat"
    assert environment["GIT_TERMINAL_PROMPT"] == "0"
    assert environment["CI"] == "1"


def test_messages_of_commands_are_in_english_in_any_locale() -> None:
    """A refusal of the sandbox is recognised by its words; gettext asks LANGUAGE before LC_ALL."""
    passed = command_environment({"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de"})

    assert passed["LC_ALL"] == "de_DE.UTF-8"
    assert passed["LANGUAGE"] == "en"


def test_proxy_variable_is_passed_on_unless_it_holds_a_password() -> None:
    """Many companies cannot install a package without a proxy."""
    ours = {"HTTPS_PROXY": "http://proxy:3128", "http_proxy": "http://user:secret@proxy:3128"}

    passed = command_environment(ours)

    assert passed["HTTPS_PROXY"] == "http://proxy:3128"
    assert "http_proxy" not in passed
