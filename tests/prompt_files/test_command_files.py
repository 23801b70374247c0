"""Commands from prompt files, in real folders."""

import os
from pathlib import Path

import pytest

from agent_cli.app.arguments import Arguments
from agent_cli.app.plugins import command_files
from agent_cli.app.startup import start
from agent_cli.contracts.errors import UsageError
from agent_cli.prompt_files import FILE_BYTES_MAX
from agent_cli.prompt_files.command_files import (
    CommandFile,
    CommandFiles,
    CommandFolder,
    filled,
    name_of_no_command,
    written_out,
)
from agent_cli.system import paths
from agent_cli.trust.store import TrustStore
from tests.tables import each_row


def write(path: str, text: str) -> Path:
    file = Path(path).absolute()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def yours() -> CommandFolder:
    return CommandFolder(Path("commands").absolute(), "yours")


def skills(folder: str) -> CommandFolder:
    return CommandFolder(Path(folder).absolute(), "yours", holds_skills=True)


async def test_command_file_becomes_a_command_prefixed_with_its_folder() -> None:
    """The front matter describes the command; unknown keys are ignored."""
    write(
        "commands/team/review.md",
        '---\ndescription: "look at: it"\nargument-hint: [file]\ncolor: x\n---\nReview $1.\n',
    )
    write("commands/plain.md", "\n## Say hello\nto all\n")
    write("commands/notes.txt", "no command")

    plain, review = CommandFiles([yours()]).commands()

    assert (review.name, review.help, review.argument) == ("team:review", "look at: it", "[file]")
    assert (plain.name, plain.help, plain.argument) == ("plain", "Say hello", "")
    assert (plain.problem, plain.source) == ("", "yours")
    assert (await review.prompt("a.py b.py")).text == "Review a.py."
    assert (await plain.prompt("and me")).text == "## Say hello\nto all\n\nand me"


def test_number_of_searched_command_folders_is_limited() -> None:
    """Threat 10: a hostile folder of commands may be a link to a whole disk."""
    write("commands/first.md", "x")
    for number in range(300):
        write(f"commands/{number:03}/notes.txt", "")
    write("commands/last/last.md", "x")

    assert [command.name for command in CommandFiles([yours()]).commands()] == ["first"]


def test_number_of_entries_searched_for_skills_is_limited() -> None:
    """Threat 10: that folder is looked through at each key of a command."""
    for number in range(1001):
        write(f"skills/s{number}/SKILL.md", "")

    assert len(CommandFiles([skills("skills")]).commands()) == 1000


@each_row(
    ("body", "argument", "text"),
    [
        ("fix $ARGUMENTS now", "all of it", "fix all of it now"),
        ("$2 before $1, not $3", "'a b' c", "c before a b, not"),
        ("$1 costs \\$1, $10 or $1.50", "tea", "tea costs $1, $10 or tea.50"),
        ("$1!", "don't go", "don't!"),
        ("say $1", "$ARGUMENTS", "say $ARGUMENTS"),
        ("$ARGUMENTS_X", "y", "$ARGUMENTS_X\n\ny"),
        ("$ARGUMENTS[1] of $ARGUMENTS[0]$ARGUMENTS[9]", "a b", "b of a"),
        ("$0 from $1 to $2", "Bar React", "Bar from React to"),
        ("see $FILE, not $HOME or \\$FILE", 'FILE="a b.py"', "see a b.py, not $HOME or $FILE"),
        ("see $ARGUMENTS", "FILE=a.py", "see FILE=a.py"),
        ("nothing", "", "nothing"),
    ],
)
def test_command_arguments_are_substituted_once(body: str, argument: str, text: str) -> None:
    """They are split like a shell's words where possible."""
    assert filled(body, argument) == text


async def test_print_prompt_that_begins_with_a_command_is_expanded() -> None:
    """Other text stays unchanged; an unusable command gives the reason."""
    write("commands/team/review.md", "Review $1 and $ARGUMENTS.")
    write("commands/empty.md", "")
    commands = CommandFiles([yours()]).commands

    assert await written_out("/team:review a\nb", commands) == ("Review a and a\nb.", "")
    for scope in ("prompts", "project", "user"):
        assert await written_out(f"/{scope}:team:review a", commands) == ("Review a and a.", "")
    for prompt in ("/etc/passwd, what is it?", "see /team:review", "/", "/team", "/my:team:review"):
        assert await written_out(prompt, commands) == (prompt, "")
    with pytest.raises(UsageError, match="it is empty"):
        await written_out("/empty", commands)


@each_row(
    ("prompt", "name"),
    [
        ("/team now", "/team"),
        ("/fix\nit", "/fix"),
        ("/etc/passwd, what is it?", ""),
        ("/etc is full", ""),
        ("/", ""),
        ("see /team", ""),
        ("", ""),
        ("/" + "n" * 300, "/" + "n" * 300),
    ],
)
def test_prompt_that_begins_with_a_path_names_no_command(prompt: str, name: str) -> None:
    assert name_of_no_command(prompt) == name


async def test_prompt_that_the_program_comes_with_is_written_out_too() -> None:
    """`-p /review` sent nothing but its name; a file of the user's comes first."""
    commands = CommandFiles([yours()]).commands

    for name in ("/init", "/review"):
        text, _ = await written_out(f"{name} the tests", commands)
        assert len(text) > 200
        assert text.endswith("\nthe tests")
    write("commands/review.md", "Mine: $1")
    assert await written_out("/review now", commands) == ("Mine: now", "")


async def test_no_command_file_is_read_for_a_prompt_without_a_slash() -> None:
    """A one-shot run would read each skill of its user a second and a third time."""

    def read() -> list[CommandFile]:
        raise AssertionError("the commands were read")

    assert await written_out("explain a/b", read) == ("explain a/b", "")


@pytest.mark.parametrize(
    ("written", "model"),
    [
        ("claude-haiku-5-5", "claude-haiku-5-5"),
        ('"high"', "high"),
        ("Sonnet", "Sonnet"),
        ("inherit", ""),
        ("", ""),
    ],
)
async def test_command_and_skill_files_can_set_the_model_of_their_prompt(
    written: str, model: str
) -> None:
    """S2-54: the effect is that of `/with`; "inherit" names no model."""
    write("commands/race.md", f"---\nmodel: {written}\n---\nFind the race.")
    write("skills/deploy/SKILL.md", SKILL.replace("\n---\n", f"\nmodel: {written}\n---\n"))

    (command,) = CommandFiles([yours()]).commands()
    (skill,) = CommandFiles([skills("skills")]).commands()

    assert await command.prompt("") == ("Find the race.", model)
    assert (await skill.prompt("")).model == model


async def test_changed_command_file_takes_effect_at_once() -> None:
    """When it is used, and in the list; so do new and removed files."""
    file = write("commands/a.md", "old")
    files = CommandFiles([yours()])
    (before,) = files.commands()

    file.write_text("newer")
    write("commands/b.md", "b")

    assert (await before.prompt("")).text == "newer"
    assert [(each.name, each.help) for each in files.commands()] == [("a", "newer"), ("b", "b")]
    file.unlink()
    assert [each.name for each in files.commands()] == ["b"]
    with pytest.raises(UsageError, match=r"a\.md cannot be read: No such file"):
        await before.prompt("")


def test_unchanged_command_files_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is requested at each key."""
    write("commands/a.md", "a")
    files = CommandFiles([yours()])
    before = files.commands()

    def no_more(*_given: object) -> None:
        raise AssertionError("read again")

    with monkeypatch.context() as patches:
        patches.setattr(Path, "open", no_more)
        assert files.commands() == before


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("two words.md", b"x", "is not a command: its name may hold letters"),
        ("-x.md", b"x", "is not a command: its name may hold letters"),
        ("empty.md", b"---\ndescription: a\n---\n \n", "is not used: it is empty"),
        ("latin.md", b"gr\xfc\xdfe", "is not used: it is not UTF-8 text"),
        ("big.md", b"x" * (FILE_BYTES_MAX + 1), "is not used: it has more than 256 KB"),
    ],
)
async def test_unusable_command_file_gives_the_reason(
    name: str, content: bytes, problem: str
) -> None:
    """`/help` shows the reason, and so does using the command; the others keep working."""
    write("commands/good.md", "good")
    Path("commands", name).write_bytes(content)

    commands = CommandFiles([yours()]).commands()

    (bad,) = (each for each in commands if each.problem)
    assert problem in bad.problem
    assert name in bad.problem
    assert [each.name for each in commands if not each.problem] == ["good"]


async def test_command_files_of_an_untrusted_folder_are_not_read() -> None:
    """Only their names are known; not even a description reaches the screen."""
    file = write("project/a.md", "---\ndescription: evil\n---\nevil")
    folder = CommandFolder(file.parent, "project", inside=file.parent, refusal="nobody trusts it")

    (command,) = CommandFiles([folder]).commands()

    assert (command.name, command.help) == ("a", "")
    assert command.problem == f"{file} is not used: nobody trusts it"
    with pytest.raises(UsageError, match="nobody trusts it"):
        await command.prompt("")


async def test_command_file_changed_after_trust_is_not_used() -> None:
    """Trust is checked after each reading, and not remembered."""
    file = write("project/a.md", "good")
    objections = [""]
    folder = CommandFolder(
        file.parent, "project", inside=file.parent, objection=lambda: objections[0]
    )
    files = CommandFiles([folder])
    (command,) = files.commands()
    assert (await command.prompt("")).text == "good"

    file.write_text("evil now")
    objections[0] = "it changed"

    with pytest.raises(UsageError, match="it changed"):
        await command.prompt("")
    (listed,) = files.commands()
    assert listed.problem == f"{file} is not used: it changed"
    objections[0] = ""
    (listed,) = files.commands()
    assert (listed.problem, listed.help) == ("", "evil now")


async def test_command_symlink_may_leave_the_users_folder_but_not_a_project() -> None:
    """A repository could name any file of the user's; users keep dotfiles where they like."""
    secret = write("elsewhere/secret.md", "secret")
    for folder in ("project", "commands"):
        Path(folder).mkdir()
        Path(folder, "a.md").symlink_to(secret)
        Path(folder, "loop").symlink_to(Path(folder).absolute())
    os.mkfifo("commands/pipe.md")
    project = CommandFolder(Path("project").absolute(), "project", Path("project").absolute())

    stolen, own = CommandFiles([project, yours()]).commands()

    assert "is not used: it leads out of" in stolen.problem
    assert (await own.prompt("")).text == "secret"


async def test_project_commands_work_once_trusted_and_until_they_change() -> None:
    """The user's own are always available, and come first; Claude Code's are read, too."""
    own = write(str(paths.config_dir() / "commands/a.md"), "mine")
    project = write(".agent-cli/commands/a.md", "theirs")
    claude = write(".claude/commands/b.md", "$ARGUMENTS")
    untrusted = command_files(start(Arguments(), may_ask=False)).commands()
    TrustStore.of_user().trust(Path.cwd())
    trusted = command_files(start(Arguments(), may_ask=False)).commands()
    answer = (await trusted[2].prompt("yes")).text
    claude.write_text("changed")

    assert [(each.path, each.source) for each in trusted] == [
        (own, "yours"),
        (project, "project"),
        (claude, "project"),
    ]
    assert [bool(each.problem) for each in untrusted] == [False, True, True]
    assert "this workspace is not trusted" in untrusted[1].problem
    assert ([each.problem for each in trusted], answer) == (["", "", ""], "yes")
    for command in trusted[1:]:
        with pytest.raises(
            UsageError, match="changed; run `agent-cli trust` in another terminal to"
        ):
            await command.prompt("")
    paths.trust_file().write_text("damaged")
    with pytest.raises(UsageError, match=r"a\.md is not used: .*trust\.json is damaged"):
        await trusted[1].prompt("")
    assert (await trusted[0].prompt("")).text == "mine"


SKILL = "---\nname: deploy\ndescription: Ship it\n---\nRun awk '{print $1}' first."


@pytest.mark.parametrize(
    "names", ["[issue, to-branch]", "issue to-branch", "\n  - issue\n  - to-branch"]
)
async def test_arguments_that_a_file_names_are_filled_in(names: str) -> None:
    """Claude Code's skills and commands; one that is not given is empty."""
    body = f"arguments: {names}\n---\nFix $issue on $to-branch, not $issues."
    write("commands/fix.md", f"---\n{body}")
    folder = write("skills/fix/SKILL.md", f"---\nname: fix\ndescription: Fix.\n{body}").parent
    (command,) = CommandFiles([yours()]).commands()
    (skill,) = CommandFiles([skills("skills")]).commands()

    assert (await command.prompt("42 'a b'")).text == "Fix 42 on a b, not $issues."
    assert (await skill.prompt("42")).text == (
        f"[skill fix, folder {folder}]\nFix 42 on , not $issues.\n\n42"
    )


@pytest.mark.parametrize(
    "sentence",
    ["The path of the file, and the HOME directory", "a PR number. Leave out HOME", "HOME: a path"],
)
async def test_words_of_a_sentence_about_the_arguments_are_no_placeholders(sentence: str) -> None:
    """`$HOME` in shell code became a word of the argument, or nothing."""
    write("commands/fix.md", f"---\narguments: {sentence}\n---\nRun $HOME/fix.sh")
    (command,) = CommandFiles([yours()]).commands()

    assert (await command.prompt("42")).text == "Run $HOME/fix.sh\n\n42"


async def test_skill_has_its_argument_and_folder_where_it_names_them() -> None:
    """Claude Code's skills do; what was typed comes last too, since text may only speak of it."""
    text = "Check $ARGUMENTS[1] of $ARGUMENTS: ${CLAUDE_SKILL_DIR}/check.sh"
    folder = write("skills/check/SKILL.md", SKILL.partition("Run")[0] + text).parent
    (command,) = CommandFiles([skills("skills")]).commands()

    assert (await command.prompt("v2 now")).text == (
        f"[skill deploy, folder {folder}]\nCheck now of v2 now: {folder}/check.sh\n\nv2 now"
    )
    assert (await command.prompt("")).text.endswith(f"\nCheck  of : {folder}/check.sh")


async def test_skill_is_a_command_whose_shell_code_is_not_substituted() -> None:
    """A $1 in a skill is the shell's; the folder comes first, the typed argument last."""
    folder = write("skills/deploy/SKILL.md", SKILL).parent
    write("skills/deploy/steps.md", "one, two")

    (command,) = CommandFiles([skills("skills")]).commands()

    assert (command.name, command.help, command.source) == ("deploy", "Ship it", "yours")
    assert (await command.prompt("to the moon")).text == (
        f"[skill deploy, folder {folder}]\nRun awk '{{print $1}}' first.\n\n"
        "Other files of this skill: steps.md\n\nto the moon"
    )


def test_duplicate_skill_is_listed_once_and_a_broken_one_gives_the_reason() -> None:
    """Folders for several agents hold copies or links: no reason for a warning."""
    first = write("one/deploy/SKILL.md", SKILL)
    write("two/deploy/SKILL.md", SKILL)
    broken = write("two/other/SKILL.md", "no front matter")

    good, bad = CommandFiles([skills("one"), skills("two")]).commands()

    assert (good.path, good.problem) == (first, "")
    assert (bad.name, bad.path) == ("other", broken)
    assert f"skill {broken} is not used: it does not begin with front matter" in bad.problem


async def test_project_skill_is_a_command_once_trusted_and_until_it_changes() -> None:
    """Threat 10: a skill's text is sent as the user's, so it needs trust like a command."""
    own = write(str(Path.home() / ".agents/skills/mine/SKILL.md"), SKILL.replace("deploy", "mine"))
    project = write(".agents/skills/deploy/SKILL.md", SKILL)
    untrusted = command_files(start(Arguments(), may_ask=False)).commands()
    TrustStore.of_user().trust(Path.cwd())
    trusted = command_files(start(Arguments(), may_ask=False)).commands()
    answer = (await trusted[1].prompt("")).text
    project.write_text(SKILL.replace("first", "last"))

    assert [(each.name, each.path, each.source) for each in trusted] == [
        ("mine", own, "your skills"),
        ("deploy", project, "project skills"),
    ]
    assert [(each.name, bool(each.problem)) for each in untrusted] == [
        ("mine", False),
        ("deploy", True),
    ]
    assert "this workspace is not trusted" in untrusted[1].problem
    assert answer.endswith("first.")
    with pytest.raises(UsageError, match="trusted files changed"):
        await trusted[1].prompt("")


def test_disabled_skills_are_not_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """One switch disables both ways to use them."""
    write(str(Path.home() / ".agents/skills/deploy/SKILL.md"), SKILL)
    on = command_files(start(Arguments(), may_ask=False)).commands()
    monkeypatch.setenv("AGENT_CLI_PLUGINS__DISABLED", "skills")

    assert [each.name for each in on] == ["deploy"]
    assert command_files(start(Arguments(), may_ask=False)).commands() == []


def test_users_own_skills_need_no_trust_in_the_home_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are the user's in any directory."""
    write(str(Path.home() / ".agents/skills/deploy/SKILL.md"), SKILL)
    monkeypatch.chdir(Path.home())

    startup = start(Arguments(), may_ask=False)

    assert [each.problem for each in command_files(startup).commands()] == [""]
    assert startup.notices == ()
