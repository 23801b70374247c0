"""Which commands certainly run nothing of the current folder, and what its files of tasks run."""

from pathlib import Path

from agent_cli.policies.shell import CommandRules, Reach, judge
from agent_cli.policies.shell.run_files import runs_own_files_only
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


_TASKFILE = """version: '3'
vars:
  OUT: {out}
tasks:
  a:
    desc: Remove the output
    deps: [ls]
    cmds:
      - task: b
  b:
    cmds:
      - rm -rf {{{{.OUT}}}}/x
  "c":
    dir: /
    cmds: ["rm -rf srv"]
  d: rm -rf ~
  e:
    - |
      rm -rf {{{{.ROOT_DIR}}}}/bin
  default:
    cmds:
      - cmd: ls
"""


@each_row(
    ("goal", "out", "expected"),
    [
        *(("a", "/srv", True), ("b", "/srv", True), ("", "/srv", False), ("a", "bin", False)),
        *(("c", "bin", True), ("d", "bin", True), ("e", "bin", False), ("$T", "bin", True)),
    ],
)
def test_task_of_a_taskfile_that_the_script_writes_is_judged(
    goal: str, out: str, *, expected: bool
) -> None:
    """Threat 19: only what runs for the task that is named, with the values of the file."""
    script = f"cat > Taskfile.yml <<'E'\n{_TASKFILE.format(out=out)}E\ntask {goal}"

    judged = judge(script, CommandRules(), Reach(root=Path("/nowhere")))

    assert (judged.verdict == "ask") is expected


@each_row(
    ("path", "text", "run", "expected"),
    [
        ("Makefile", "B = a\nx:\n\trm -rf $(B)", "make B=/srv x", True),
        ("Makefile", "B = a\nx:\n\trm -rf $(B)", "make B=b x", False),
        ("Makefile", "B = a\nx:\n\trm -rf $(B)\n\tfind . -delete", "make x B=/", True),
        ("Makefile", "x:\n\trm -rf $(CURDIR)/srv", "make x", False),
        ("Makefile", "x:\n\trm -rf $(CURDIR)/srv", "make CURDIR=/ x", True),
        ("Makefile", "x:\n\trm -rf $(CURDIR)/srv", "make -C / -f $PWD/Makefile x", True),
        ("Makefile", "x:\n\trm -rf $(CURDIR)/srv", "make == =a B= x", False),
        ("justfile", 'b := "a"\nx:\n  rm -rf {{b}}', "just b=/srv x", True),
        ("Taskfile.yml", "vars: {B: a}\ntasks:\n  x: rm -rf {{.B}}", "task x B=/srv", True),
        ("Taskfile.yml", "tasks:\n  x:\n    aliases: [y]\n    cmds: [rm -rf ~]", "task y", True),
        ("Taskfile.yml", "tasks:\n  'x-*': rm -rf ~", "task x-y", True),
        ("a.yml", "tasks:\n  x: rm -rf ~", "task -t a.yml x", True),
        ("a.yml", "tasks:\n  x: rm -rf ~", "task --taskfile=a.yml x", True),
        ("tox.ini", "[testenv]\ncommands = rm -rf {env:HOME}", "tox", True),
        ("tox.ini", "[testenv]\ncommands = rm -rf {homedir}/x", "tox", True),
        ("tox.ini", "[testenv]\ncommands = rm -rf {env:D:dist}/x", "tox -e D", True),
    ],
)
def test_values_of_the_command_line_count_in_a_file_that_the_script_writes(
    path: str, text: str, run: str, *, expected: bool
) -> None:
    """Threat 19: `make B=/srv` beats what the makefile sets, and `-C` its folder."""
    script = f"cat > {path} <<'E'\n{text}\nE\n{run}"

    judged = judge(script, CommandRules(), Reach(root=Path("/nowhere")))

    assert (judged.verdict == "ask") is expected
