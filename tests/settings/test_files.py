"""Settings files: the lines of their keys; the rules of permissions.toml, read and added."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_cli.contracts.errors import SettingsError
from agent_cli.settings import Override, WrittenRule
from agent_cli.settings.environment import Environment
from agent_cli.settings.files import (
    add_project_rules,
    read_rules,
    remove_project_rules,
    toml_lines,
)
from agent_cli.settings.load import load_settings
from agent_cli.system import paths
from tests.full_disks import full_disk
from tests.tables import each_row

SPANNING = '''# one
first = """
a = 1
""" # two
[table] # three
second = [
  "x[", # four
  ["y",
   "]"],
  { third = [
      1,
  ] },
]
fourth = { fifth = 1, sixth = ["z"] }
seventh = \'\'\'
eighth = 2\'\'\'
[[many]]
ninth = 9
'''


def test_each_key_has_the_line_on_which_its_statement_begins() -> None:
    """A message about a setting names the file and the line."""
    lines = toml_lines(SPANNING)

    assert {path: line for path, line in lines.items() if len(path) < 3} == {
        ("first",): 2,
        ("table",): 5,
        ("table", "second"): 6,
        ("table", "fourth"): 14,
        ("table", "seventh"): 15,
        ("many",): 17,
        ("many", "ninth"): 18,
    }


def test_long_list_is_not_parsed_again_for_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of 500 rules cost each start a third of a second."""
    parsed: list[str] = []
    loads = tomllib.loads

    def counted(text: str) -> Mapping[str, object]:
        parsed.append(text)
        return loads(text)

    monkeypatch.setattr(tomllib, "loads", counted)
    rules = "".join(f'  "bash(tool{number} *)",\n' for number in range(400))

    lines = toml_lines(f"allow = [\n{rules}]\nmode = 1\n")

    assert lines == {("allow",): 1, ("mode",): 403}
    assert len(parsed) <= 5


FILE = Path("permissions.toml")
TEXT = """\
# allow = ["bash(make *)"]
allow = [
    "bash(make *)",  # everywhere
    'edit(src/**)',
]
deny = ["read(*.pem)", "bash(make *)"]

[[projects]]
path = "{here}"
allow = ["bash(npm test *)"]

[[projects]]
path = "/elsewhere"
allow = ["bash"]
"""


def test_rules_record_their_line_and_skip_other_projects(tmp_path: Path) -> None:
    """`permissions explain` shows the line; a comment with the same words is not the rule."""
    FILE.write_text(TEXT.format(here=tmp_path))

    assert read_rules(FILE, tmp_path) == (
        WrittenRule("allow", "bash(make *)", "permissions.toml:3"),
        WrittenRule("allow", "edit(src/**)", "permissions.toml:4"),
        WrittenRule("deny", "read(*.pem)", "permissions.toml:6"),
        WrittenRule("deny", "bash(make *)", "permissions.toml:6"),
        WrittenRule("allow", "bash(npm test *)", "permissions.toml:10"),
    )


def test_added_project_rules_keep_the_rest_of_the_file(tmp_path: Path) -> None:
    """Comments and order are the user's; no other user may read or write the file."""
    add_project_rules(FILE, tmp_path, ["bash(npm test *)"])
    FILE.write_text("# mine\n" + FILE.read_text())
    add_project_rules(FILE, tmp_path, ['bash(echo "a\\b\x7f" *)', "edit(*)"])

    assert FILE.read_text().startswith("# mine\n")
    assert FILE.stat().st_mode & 0o777 == 0o600
    assert [rule.text for rule in read_rules(FILE, tmp_path)] == [
        "bash(npm test *)",
        'bash(echo "a\\b\x7f" *)',
        "edit(*)",
    ]
    assert read_rules(FILE, tmp_path / "inner") == ()


def test_removed_rule_leaves_the_rest_of_the_file(tmp_path: Path) -> None:
    """Also a rule of the same text in another project, and what the user wrote in between."""
    mine = "deny = ['bash(make *)']\nallow = [\n    'edit(*)',  # mine\n    \"bash(make *)\"]\n"
    FILE.write_text(mine)
    add_project_rules(FILE, tmp_path, ["read(*)"])
    add_project_rules(FILE, tmp_path / "other", ["bash(make *)", "bash(a)", "bash(b)"])
    add_project_rules(FILE, tmp_path, ["bash(make *)", 'bash(echo "a\\b")'])

    was_wide = remove_project_rules(FILE, tmp_path / "other", lambda rule: rule == "bash(b)")
    quoted = remove_project_rules(FILE, tmp_path, lambda rule: rule.startswith("bash(echo"))
    alone = remove_project_rules(FILE, tmp_path, lambda rule: rule == "read(*)")
    everywhere = remove_project_rules(FILE, tmp_path, lambda rule: rule == "bash(make *)")

    assert (was_wide, quoted, alone, everywhere) == (False, False, False, True)
    assert FILE.read_text() == (
        "deny = ['bash(make *)']\nallow = [\n    'edit(*)',  # mine\n]\n"
        f'\n[[projects]]\npath = "{tmp_path}/other"\nallow = ["bash(make *)", "bash(a)"]\n'
    )
    assert FILE.stat().st_mode & 0o777 == 0o644


LINES = """# mine\n\nallow = [
    # "bash(a)",
    "bash(a)",
    'edit(*)',  # keep
    "bash(b)"
]
"""


OF_WINDOWS = LINES.replace("\n", "\r\n")
FIRST = '    "bash(a)",\n'


@each_row(
    ("rule", "before", "after"),
    [
        ("bash(a)", LINES, LINES.replace(FIRST, "")),
        ("edit(*)", LINES, LINES.replace("'edit(*)',  #", "#")),
        ("bash(b)", LINES, LINES.replace('    "bash(b)"\n', "")),
        ("bash(a)", OF_WINDOWS, OF_WINDOWS.replace(FIRST.replace("\n", "\r\n"), "")),
        ("bash(a)", "\ufeff" + LINES, "\ufeff" + LINES.replace(FIRST, "")),
        ("bash(c)", LINES, LINES),
    ],
)
def test_only_a_removed_rule_leaves_the_file(
    tmp_path: Path, rule: str, before: str, after: str
) -> None:
    """Not the other lines of its array, the line ends of Windows, or a byte order mark."""
    FILE.write_bytes(before.encode())

    remove_project_rules(FILE, tmp_path, lambda each: each == rule)

    assert FILE.read_bytes().decode() == after


def test_rule_is_added_once_and_removed_from_no_file(tmp_path: Path) -> None:
    """Also where another session added it, or the user took the file away."""
    for _ in range(2):
        add_project_rules(FILE, tmp_path, ["edit(*)"])
    once = FILE.read_text()
    add_project_rules(FILE, None, ["edit(*)"])
    FILE.unlink()

    assert once.count("edit(*)") == 1
    assert not remove_project_rules(FILE, tmp_path, lambda _: True)
    assert not FILE.exists()


def test_rule_that_is_not_written_as_it_is_read_stays(tmp_path: Path) -> None:
    """With escapes of its own: to guess might take another rule out."""
    FILE.write_text('allow = ["bash(\\u006dake)"]')

    with pytest.raises(SettingsError, match=r"take the rule bash\(make\) out by hand"):
        remove_project_rules(FILE, tmp_path, lambda rule: rule == "bash(make)")
    assert FILE.read_text() == 'allow = ["bash(\\u006dake)"]'


def test_rules_for_every_project_hold_in_each(tmp_path: Path) -> None:
    """Beside those of one project, whatever order they were added in."""
    add_project_rules(FILE, tmp_path, ["edit(*)"])
    add_project_rules(FILE, None, ["network(pypi.org)"])

    assert [rule.text for rule in read_rules(FILE, tmp_path)] == ["edit(*)", "network(pypi.org)"]
    assert [rule.text for rule in read_rules(FILE, Path("/"))] == ["network(pypi.org)"]


def test_no_rule_is_added_to_an_invalid_permissions_file(tmp_path: Path) -> None:
    """The rule would look stored but never apply."""
    FILE.write_text("allow = [")

    with pytest.raises(SettingsError, match=r"^permissions\.toml:1 is not valid TOML"):
        add_project_rules(FILE, tmp_path, ["edit(*)"])
    assert FILE.read_text() == "allow = ["


def test_rule_that_a_full_disk_cuts_off_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """Half a table would keep the program from starting until the user repairs the file."""
    # Larger than the files that others write meanwhile.
    written = f"# {'x' * 3_000_000}\ndeny = ['bash(rm *)']\n"
    FILE.write_text(written)

    with full_disk(FILE, free=20), pytest.raises(SettingsError, match="cannot be written"):
        add_project_rules(FILE, tmp_path, ["edit(*)"])
    assert FILE.read_text() == written


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("alow = []", "unknown key alow; rules go under allow, ask, deny"),
        ("allow = 'x'", "allow must be a list of strings"),
        ("deny = [1]", "deny must be a list of strings"),
        ("[[projects]]\nallow = []", r"each \[\[projects\]\] must have a path"),
        ("projects = 1", r"each \[\[projects\]\] must have a path"),
        ("[[projects]]\npath = '/'\nmode = []", r"unknown key mode in the \[\[projects\]\] of /;"),
    ],
)
def test_invalid_permissions_file_is_an_error(text: str, complaint: str) -> None:
    """A deny rule that is silently ignored is a hole."""
    FILE.write_text(text)

    with pytest.raises(SettingsError, match=f"^permissions.toml: {complaint}"):
        read_rules(FILE, Path())


def test_rules_from_all_sources_are_combined_with_their_origins(tmp_path: Path) -> None:
    """C19: the user's file, settings, a trusted project's settings, options."""
    paths.config_dir().mkdir(parents=True)
    paths.permissions_file().write_text('deny = ["bash(sudo *)"]')
    paths.user_settings_file().write_text('\n[permissions]\nallow = ["bash(make *)"]')
    project = tmp_path / "appsettings.toml"
    project.write_text('[permissions]\nallow = ["bash"]\nask = ["bash(npm *)"]\ndeny = ["edit"]')
    overrides = [Override("permissions.allow", ("grep",), "--allow")]

    loaded = load_settings(Environment({}), workspace=tmp_path, trusted=True, overrides=overrides)

    assert loaded.rules == (
        WrittenRule("deny", "bash(sudo *)", f"{paths.permissions_file()}:1"),
        WrittenRule("allow", "bash(make *)", f"{paths.user_settings_file()}:3"),
        WrittenRule("allow", "grep", "flag --allow"),
        WrittenRule("ask", "bash(npm *)", f"{project}:3"),
        WrittenRule("deny", "edit", f"{project}:4"),
    )
