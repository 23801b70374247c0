"""Which commands certainly run nothing of the current folder but what they name."""

from agent_cli.policies.shell.named_paths import runs_own_files_only
from tests.tables import each_row

CERTAIN = (
    "cat >> /var/log/x",
    "jq -r .tool_input.command | grep -q rm && exit 2 || true",
    'FILE=$(jq -r .tool_input.file_path); echo "$FILE" >> /x',
    "/home/me/.claude/hooks/guard.py",
    "~/.claude/hooks/guard.sh --strict",
    "python3 ~/.claude/hooks/guard.py --x",
    "python3 -I /home/me/guard.py",
    "bash -e /home/me/guard.sh",
    "notify-send 'agent' 'done'; say done",
    "curl -s -d @- https://example.com/hook",
    "[ -t 0 ] || cat > /dev/null",
)
UNCERTAIN = (
    "make",
    "npx prettier --write x",
    "npm run lint",
    "git diff --name-only",
    "pytest -q",
    "pre-commit run",
    "python3 -m tool",
    "python3 -c 'import tool'",
    "python3",
    "python3 guard.py",
    "bash guard.sh",
    "sh",
    "cat x | sh",
    "bash -c 'make'",
    "perl -e 'do q(x)'",
    "$TOOL x",
    "$(cat tool) x",
    "/usr/bin/make",
    "/home/me/.local/bin/pre-commit run",
    "/home/me/.asdf/shims/npx x",
    "PATH=bin:$PATH jq .",
    "BASH_ENV=x bash /home/me/x.sh",
    "NODE_OPTIONS='-r x' node /home/me/x.js",
    "LD_PRELOAD=x jq .",
    "GIT_DIR=x; jq .",
    "env make",
    "timeout 5 make",
    'eval "$(jq -r .x)"',
    "source x",
    "xargs make",
    "find . -exec make {} +",
    "awk -f x",
    "curl -sK hook.curl",
    "jq . | sort --compress-program=./x",
    "just && echo done",
    "if true; then make; fi",
    "f() { make; }; f",
    "echo $(make)",
    "cat <(make)",
    "unknown-guard",
    "echo 'unclosed",
    "",
)


@each_row("command", CERTAIN)
def test_user_files_and_programs_that_read_no_project_are_certain(command: str) -> None:
    assert runs_own_files_only(command)


@each_row("command", UNCERTAIN)
def test_command_that_may_run_a_file_of_the_folder_is_not_certain(command: str) -> None:
    """An untrusted repository's script ran under a hook of the user."""
    assert not runs_own_files_only(command) or not command


def test_program_with_arguments_is_judged_by_its_words() -> None:
    assert runs_own_files_only(("~/.claude/hooks/guard.py", "x; make"))
    assert runs_own_files_only(("python3", "/home/me/guard.py"))
    assert not runs_own_files_only(("python3", "guard.py"))
    assert not runs_own_files_only(("npx", "guard"))
