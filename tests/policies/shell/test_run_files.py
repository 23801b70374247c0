"""What the files of tasks in the current folder run."""

from pathlib import Path

from agent_cli.policies.shell import CommandRules, Reach, judge
from tests.tables import each_row

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
        ("Makefile", "B ?= a\nx:\n\trm -rf $(B)/srv", "B=/ make x", True),
        ("Makefile", "B ?= a\nx:\n\trm -rf $(B)/srv", "env B=/ make x", True),
        ("Makefile", "B ?= a\nx:\n\trm -rf $(B)/srv", "export B=/\nmake x", True),
        ("Makefile", "B ?= a\nx:\n\trm -rf $(B)/srv", "B=out make x", False),
        ("Makefile", "B = a\nx:\n\trm -rf $(B)/srv", "B=/ make x", False),
        ("Makefile", "B = a\nx:\n\trm -rf $(B)/srv\n\tfind . -name q", "B=/ make -e x", True),
        ("Makefile", "B = a\nx:\n\trm -rf $(B)/srv", "MAKEFLAGS=-e B=/ make x", True),
        ("Makefile", "x:\n\trm -rf srv", "make --directory=/ -f $PWD/Makefile x", True),
        ("Makefile", "x:\n\trm -rf srv", "make -C/ -f $PWD/Makefile x", True),
        ("Makefile", "x:\n\trm -rf srv", "make -C sub -f $PWD/Makefile x", False),
        ("justfile", "x:\n\trm -rf srv", "just --working-directory / --justfile justfile x", True),
        ("t.ini", "[testenv]\ncommands = rm -rf /srv", "tox -c t.ini", True),
        ("tox.ini", "[testenv]\nchangedir = /\ncommands = rm -rf srv", "tox", True),
        ("tox.ini", "[testenv]\nchangedir = docs\ncommands = rm -rf srv", "tox", False),
        ("tox.ini", "[testenv]\ncommands = rm -rf {posargs:/srv}", "tox", True),
        ("tox.ini", "[testenv]\ncommands = rm -rf {posargs}", "tox -- /srv", True),
        ("tox.ini", "[testenv]\ncommands = pytest {posargs:tests}", "tox -- -k x", False),
        ("Taskfile.yml", "tasks:\n  x:\n    - >-\n      rm -rf\n      ~", "task x", True),
    ],
)
def test_values_of_the_command_line_count_in_a_file_that_the_script_writes(
    path: str, text: str, run: str, *, expected: bool
) -> None:
    """Threat 19: `make B=/srv` beats what the makefile sets, and `-C` its folder."""
    script = f"cat > {path} <<'E'\n{text}\nE\n{run}"

    judged = judge(script, CommandRules(), Reach(root=Path("/nowhere")))

    assert (judged.verdict == "ask") is expected


@each_row(
    ("path", "text", "run", "expected"),
    [
        ("mise.toml", "[tasks.x]\nrun = 'rm -rf ~'", "mise run x", True),
        ("mise.toml", "[tasks.x]\nrun = 'rm -rf dist'", "mise run x", False),
        ("pyproject.toml", "[tool.poe.tasks]\nx.cmd = 'rm -rf /srv'", "uv run poe x", True),
        ("pyproject.toml", '[tool.pdm.scripts]\nx = """\nrm -rf ~\n"""', "pdm x", True),
        ("pyproject.toml", "[tool.hatch.x.scripts]\nx = ['rm -rf a']", "hatch run x", False),
        ("pyproject.toml", "[project]\nname = 'shred'\n# don't", "uv sync", False),
        ("Pipfile", '[scripts]\nx = "rm -rf /srv"', "pipenv run x", True),
        ("Makefile.toml", "[tasks.x]\nscript = 'rm -rf ~'", "cargo make x", True),
        (".lintstagedrc.json", '{"*.js": "rm -rf ~"}', "npx lint-staged", True),
        (".lintstagedrc.json", '{"*.js": "eslint --fix"}', "npx lint-staged", False),
        ("composer.json", '{"scripts": {"x": "rm -rf ~"}}', "composer x", True),
        (
            ".pre-commit-config.yaml",
            "repos:\n- repo: local\n  hooks:\n  - id: x\n    entry: rm -rf /srv",
            "pre-commit run -a",
            True,
        ),
        (".pre-commit-config.yaml", "repos:\n- repo: local", "pre-commit run -a", False),
        ("lefthook.yml", "a:\n  commands:\n    x:\n      run: rm -rf ~", "lefthook run a", True),
        ("x.yml", "jobs:\n  a:\n    steps:\n    - run: |\n        rm -rf ~", "act", True),
        ("x.yml", "jobs:\n  a:\n    steps:\n    - run: >\n        rm -rf\n        ~", "act", True),
        ("Procfile", "web: rm -rf ~", "honcho start", True),
        ("tasks.py", "@task\ndef x(c):\n    c.run('rm -rf ~')", "inv x", True),
        ("noxfile.py", "def x(s):\n    s.run('rm', '-rf', '/srv')", "nox -s x", True),
        ("noxfile.py", "def x(s):\n    s.run('pytest', '-q')", "nox -s x", False),
        ("x.py", "import shutil\nshutil.rmtree('/srv')", "uv run --with rich x.py", True),
        ("x.py", "import shutil\nshutil.rmtree('out')", "uv run --with rich x.py", False),
        ("X.java", 'Runtime.getRuntime().exec("rm -rf /srv");', "java X.java", True),
        ("x.zig", 'try std.fs.cwd().deleteTree("/srv");', "zig run x.zig", True),
    ],
)
def test_file_of_another_runner_that_the_script_writes_is_judged(
    path: str, text: str, run: str, *, expected: bool
) -> None:
    """Threat 19: settings whose texts are commands, YAML with commands in lines, and code."""
    script = f"cat > {path} <<'E'\n{text}\nE\n{run}"

    judged = judge(script, CommandRules(), Reach(root=Path("/nowhere")))

    assert (judged.verdict == "ask") is expected


def test_task_of_an_included_taskfile_is_judged() -> None:
    """Threat 19: it is run by the name before its own."""
    included = "cat > inc.yml <<'E'\ntasks:\n  x: rm -rf ~\nE"
    script = f"{included}\ncat > Taskfile.yml <<'E'\nincludes:\n  a: ./inc.yml\nE\ntask a:x"

    judged = judge(script, CommandRules(), Reach(root=Path("/nowhere")))

    assert judged.verdict == "ask"
