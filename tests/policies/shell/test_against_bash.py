"""Compare the parser with bash: the programs the parser finds must be those that bash runs."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from agent_cli.policies.shell import (
    CommandRules,
    Reach,
    SimpleCommand,
    Unknown,
    command_rule,
    judge,
    parse,
    simple_commands,
)
from agent_cli.policies.shell.words import NotLiteral
from tests.waiting import LIMIT_S

# Pieces that can change the meaning of the pieces beside them.
_PIECES = (
    *("a", "b1", "cmd", "x=y", "-n", "-o1", "-oout", "-ab12", "-a-b1", "--x1", "_1", "--opt=v"),
    *("'q r'", '"d q"', "''", '""', "'a\nb'", '"a\nb"', '"!"', "';'", '";"', "a'b'c", 'a"b"c'),
    *("$", "$x", "${x}", "$(a)", "`a`", '"\\$a"', "\\$", "\\", "\\\n", "\\a", "\\'", "\\;", "\\#"),
    *(" \\\n", " \\\n  ", "&& \\\n", "; \\\n", "\\\n "),
    *("\n", "\t", ";", "&&", "||", "|", "|&", "&", "# c", "#c\n", "|| #x\n", "; #x\n", "a#b"),
    *(">", "<", ">>", "2>", "2>&1", ">&2", "1>&2", "&>", "/dev/null", ">/dev/null", "</dev/null"),
    *("1>/dev/null", "12>/dev/null", "a2>/dev/null", "<<", "<<E", "\nE\n", "<<<", "3<", "&-"),
    *("!", "{", "}", "(", ")", "[", "]", "[[", "]]", "*", "?", "[!a]", "~", "a~b", "a:~", "a=~"),
    *("if", "then", "fi", "for", "in", "do", "case", "function", "select", "{a,b}", "{1..3}"),
    *(
        "{a,b}c",
        "x{1..3}",
        "{}",
        "a@{0}",
        "$?",
        '"$?"',
        "for i in a 'b c'",
        "; do ",
        "; done",
        '"$i"',
    ),
    *(
        "if ",
        "; then ",
        "; fi",
        "! ",
        "( ",
        " )",
        "{ ",
        "; }",
        "[ ",
        " ]",
        "[[ ",
        " ]]",
        "\\(",
        "\\;",
    ),
    *("a=(", "b)", "==", "=~", "-eq", "-", "--", "é", "1", "2", "x[1]=", "x+=", "a^b", "%", "@"),
)
# Lines of a text in a heredoc that ends at E, and that bash might end elsewhere.
_LINES = (
    *("", "a", "E", " E", "\tE", "E ", "Eb1", "E)", "E b1)", "E;b1)", "E`b1`)", "E $(b1)", "E#)"),
    *("E); b1 #", 'E)"; b1 "', ')"', ")", "(", "'", '"', "`b1`", "$(b1)", "${x}", "\\", "E\\", "#"),
    *("<<'E'", "case a in", "a)", "esac", "((", "))", "'; b1; '", '"; b1; "', "' b1 '"),
)
# Ends of a line that goes on in the next one.
_OPEN = (" \\", "; b1 'x", '; b1 "x', " | b1 \\", " &&", " |", " x\\")
# With and without backquotes and quoted marks: what bash runs of it, a rule that denies must see.
_OPERATORS = ("<<", "<<-", "<< ")
_MARKS = ("E", "'E'", '"E"', "\\E", "$E", "a$E")
# Ways to run a script: it stands for @ as it is, for % in quotes, for ` as in backquotes.
_WAYS = (
    *(
        "( @ )",
        "{ @\n}",
        "! @",
        "time @",
        "if @; then :; fi",
        "if :; then @\nfi",
        "coproc { @\n}; wait",
    ),
    *("until @\ndo break; done", "for i in 1; do @\ndone", "for ((i=0$(@);i<1;i++)); do :; done"),
    *(
        "case a in (a) @ ;; esac",
        "case a in $(@)) ;; *) : ;& b) @\nesac",
        "select i in a; do @\nbreak; done <<<1",
    ),
    *(
        "f() { @\n}; f",
        "function cd { @\n}\ncd",
        "echo() ( @ ); echo",
        'f() { eval "$*"; }; f %',
        'f() { "$@"; }; f eval %',
    ),
    *(
        "x=$(@)",
        "x+=`",
        "x=($(@))",
        "x[0$(@)]=1",
        "declare x=$(@)",
        "declare -A x=([$(@)]=1)",
        'x=%; eval "$x"',
    ),
    *(
        'x=(eval %); "${x[@]}"',
        'set -- %; eval "$1"',
        "x=eval; $x %",
        "read x <<<eval; $x %",
        "printf -v x eval; $x %",
    ),
    *(
        "eval %",
        "eval % :",
        "trap % EXIT",
        "trap -- % DEBUG; :",
        "bash -c %",
        "bash -xc %",
        "bash <<<%",
        "bash -s <<<%",
    ),
    *(
        "bash <<'E'\n@\nE",
        "bash <<-E\n\t@\n\tE",
        "echo <<E\n$(@)\nE",
        "echo <<'E'; @\nx\nE",
        "echo <<A <<'B' | @\nA\nB",
    ),
    *(
        ". <(echo %)",
        "source /dev/stdin <<<%",
        "echo % | bash",
        "echo % | xargs -d '\\n' -n1 bash -c",
        "command eval %",
    ),
    *(
        "builtin eval %",
        "exec bash -c %",
        "exec -a x bash -c %",
        "env A=1 bash -c %",
        "env -i PATH=$PATH LOG=$LOG bash -c %",
    ),
    *(
        "echo a | xargs -I{} bash -c %",
        "find . -maxdepth 0 -exec bash -c % \\;",
        "echo % | xargs -d'\\n' -I@@ bash -c @@",
    ),
    *(
        "env -S'bash -c b1'",
        "timeout 5 bash -c %",
        "nice -n 1 env bash -c %",
        "@ & wait",
        "@ | :",
        ": |& @",
        "false || @",
    ),
    *(
        "[[ -n $(@) ]]",
        "[ a = `",
        "[[ -v 'x[$(b1)]' ]]",
        "((x[$(@)]))",
        "x='a[$(b1)]'; ((x))",
        "x=a['$(b1)']; : $((x))",
    ),
    *(
        "let 'x[$(b1)]=1'",
        "declare -i x='y[$(b1)]'",
        "x='a[$(b1)]'; : ${!x}",
        "x='$(b1)'; : ${x@P}",
        "compgen -W '$(b1)'",
    ),
    *(
        "mapfile -C% -c 1 x <<<a",
        "shopt -s expand_aliases\nalias x=%\nx",
        "BASH_ALIASES[x]=%\nshopt -s expand_aliases\nx",
    ),
    *(
        "command_not_found_handle() { @\n}; no",
        "PS4='$(b1)'; set -x; :",
        "declare 'PS4=$(b1)'; set -x; :",
    ),
    *("read PS4 <<<'$(b1)'; set -x; :", "PS4='$(b1)' bash -xc :", "BASH_ENV=<(echo %) bash -c :"),
    *(
        ": ${z:-$(@)}",
        ': "${z:=`',
        ": $((1+0$(@)))",
        ": < <(@)",
        ": > >(@)",
        ": {a,$(@)}",
        "A=$(@) :",
        "3<&0 {fd}>/dev/null eval %",
    ),
    *(
        ": # it's\n@",
        ": a#b; @",
        ": \\# ; @",
        ": ${z#'}'}; @",
        ": ${z:-'a}b'}; @",
        ": $((1<<2)); @",
        "((: ); @)",
        ": $((:); @)",
    ),
    *(
        "[[ a =~ (a|b) ]] && @",
        "[[ a < b ]]; @",
        ": `: '`; @; : `'`",
        ": $(case a in (a) @;; esac)",
        ": $(# c )\n@\n)",
    ),
    *(
        "x=$(cat <<'E'\n)\nE\n); @",
        ": 'a\\'; @",
        ": $'\\''; @; : $'\\''",
        ": a\\\n; @",
        ": { a }; @",
        "a=('(' \")\"); @",
        ": >&2 | @",
    ),
)
# Written to a separate file, because the parts of a pipeline run concurrently.
_TELLS = (
    'command_not_found_handle() { printf "%s\\0" "$@" >"$LOG/$BASHPID"; return ${#1}; }\n'
    'cat() { IFS= read -rd "" text; printf %s "$text"; }\n'
)
# Reserved words that precede a command; no program known to only read has such a name.
_KEYWORDS = frozenset({"coproc", "time"})


def plain_scripts(seed: int) -> Iterator[tuple[str, tuple[SimpleCommand, ...]]]:
    """Yield scripts the parser accepts as plain, and the commands it finds in them."""
    random = Random(seed)
    while True:
        pieces = (
            random.choice(_PIECES) + random.choice(("", "", " "))
            for _ in range(random.randint(2, 8))
        )
        script = random.choice(("", "cmd ")) + "".join(pieces)
        if not random.randint(0, 3):
            script = f"cmd {_heredoc(random)} {random.choice(_PIECES)}"
        elif not random.randint(0, 5):
            script = _fed(random)
        parts = parse(script)
        if isinstance(parts, Unknown):
            continue
        try:
            commands = tuple(simple_commands(parts))
        except NotLiteral:
            continue  # A loop over a value that would not stay one word.
        if _KEYWORDS.isdisjoint(command.words[0].text for command in commands):
            yield script, commands


def _heredoc(random: Random) -> str:
    lines = random.choices(_LINES, k=random.randint(0, 3))
    return "\n".join((f"\"$(cat {random.choice(('<<', '<< '))}'E'", *lines, 'E\n)"'))


def _fed(random: Random) -> str:
    before = "".join(random.choices(_PIECES, k=random.randint(0, 2)))
    behind = random.choice(("", "", " | b1", "; b1", " 2>&1", "b1", f" {before}", *_OPEN))
    lines = random.choices(_LINES, k=random.randint(0, 3))
    end = random.choice(("", "\n", "\nb1", "\nb1 && c1", " ", "\n\n b1", "\n'", '\n"'))
    mark = random.choice(("'E'", "E"))
    if random.randint(0, 3):
        opening = f"{random.choice(('<<', '<< '))}{mark}"
        return "\n".join((f"cmd {before} {opening}{behind}", *lines, f"E{end}"))
    opening = f"{random.choice(('<<<', '<<< '))}{random.choice((*_PIECES, *_LINES))}"
    return f"cmd {before} {opening}{behind}{end.removeprefix(' ')}"


def run(script: str, folder: Path) -> tuple[list[list[str]], list[str]]:
    """Return the commands bash starts for *script*, and the files it makes."""
    log, empty = folder / "log", folder / "empty"
    for each in (log, empty):
        shutil.rmtree(each, ignore_errors=True)
        each.mkdir()
    (folder / "tells").write_text(_TELLS)
    environment = {"PATH": "/nowhere", "BASH_ENV": str(folder / "tells"), "LOG": str(log)}
    bash = shutil.which("bash")
    assert bash
    subprocess.run(
        [bash, "-c", script],
        cwd=empty,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    started = [path.read_bytes().decode().split("\0")[:-1] for path in log.iterdir()]
    return started, [path.name for path in empty.iterdir()]


def differences(seed: int, count: int, folder: Path) -> list[str]:
    """Return the scripts that bash and the parser read differently."""
    found: list[str] = []
    for script, commands in islice(plain_scripts(seed), count):
        started, made = run(script, folder)
        seen = [[word.text for word in command.words] for command in commands]
        # Matching patterns and bash's own numbers are not the subject here.
        globs = any(word.glob or word.unknown for command in commands for word in command.words)
        if made or (not globs and any(words not in seen for words in started)):
            found.append(script)
    return found


def unseen(seed: int, count: int, folder: Path) -> list[str]:
    """Return the scripts with heredocs in which a rule that denies does not see what bash runs."""
    random, found = Random(seed), list[str]()
    rules = CommandRules(deny=[command_rule("b1 *")])
    for _ in range(count):
        mark = random.choice(_MARKS)
        head = f"{random.choice(('cat', 'b1', '(cat', 'x=$(cat', ':'))} {random.choice(_OPERATORS)}"
        rest = random.choice(("", " | b1", "; b1", " # b1", " <<F", *_OPEN))
        lines = random.choices(_LINES, k=random.randint(0, 4))
        script = "\n".join((f"{head}{mark}{rest}", *lines, mark.strip("'\"\\"), *lines[:1]))
        script += random.choice(("", "\n)", "\nF\nb1"))
        is_run = any(words[:1] == ["b1"] for words in run(script, folder)[0])
        if is_run and judge(script, rules, Reach(root=folder)).verdict not in ("deny", "ask"):
            found.append(script)
    return found


def _way(random: Random, depth: int) -> str:
    """Return a script that runs b1, most ways inside each other."""
    if not depth:
        return f"{random.choice(('b1', _quoted(random, 'b1')))}{random.choice(('', ' a', ' 2>&1'))}"
    way, inner = random.choice(_WAYS), _way(random, depth - 1)
    if way.endswith("`"):
        end = '}"' if '"' in way else " ]" if "[ " in way else ""
        escaped = "".join(f"\\{each}" if each in "\\$`" else each for each in inner)
        return f"{way}{escaped}`{end}"
    text = way.replace("@@", "\0").replace("%", _quoted(random, inner))
    return (text if "%" in way else text.replace("@", inner)).replace("\0", "@@")


def _quoted(random: Random, text: str) -> str:
    """Return *text* as one word, quoted in a way that may change from piece to piece."""
    kinds: tuple[Callable[[str], str], ...] = (
        lambda piece: "'" + piece.replace("'", "'\\''") + "'",
        lambda piece: '"' + "".join(f"\\{x}" if x in '\\$`"' else x for x in piece) + '"',
        lambda piece: "$'" + "".join(rf"\x{ord(x):02x}" for x in piece) + "'",
        lambda piece: "".join("'\n'" if x == "\n" else f"\\{x}" for x in piece),
    )
    size = random.choice((1, 3, 8, len(text)))
    pieces = (text[at : at + size] for at in range(0, len(text), size))
    return "".join(random.choice(kinds)(piece) for piece in pieces)


def unseen_ways(seed: int, count: int, folder: Path) -> tuple[list[str], int]:
    """Return the scripts that run b1 although it is denied, and how many of a sample run it."""
    random, found, ran = Random(seed), list[str](), 0
    rules = CommandRules(deny=[command_rule("b1 *")])
    for at in range(count):
        script = _way(random, random.randint(1, 4))
        is_seen = judge(script, rules, Reach(root=folder)).verdict in ("deny", "ask")
        if not is_seen or at % 10 == 0:
            is_run = runs_b1(script, folder)
            ran += is_run
            if is_run and not is_seen:
                found.append(script)
    return found, ran


def runs_b1(script: str, folder: Path) -> bool:
    """Return whether bash runs the program b1, also through other programs."""
    # Of its own: what an earlier script left running may still write to the one it had.
    own = Path(tempfile.mkdtemp(dir=folder))
    log, path = own / "ways", own / "programs"
    log.mkdir()
    path.mkdir()
    for name in ("bash", "cat", "env", "find", "nice", "timeout", "xargs"):
        (path / name).symlink_to(shutil.which(name) or "")
    (path / "b1").write_text('#!/bin/sh\n: >"$LOG/b1"\n')
    (path / "b1").chmod(0o755)
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(
            ["timeout", "-k1", "5", "bash", "-c", script],
            cwd=log,
            env={"PATH": str(path), "LOG": str(log)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=LIMIT_S,
        )
    return (log / "b1").exists()


def test_harness_records_the_commands_and_files_of_bash(tmp_path: Path) -> None:
    """Otherwise the tests below could not fail."""
    assert run("a 'b c' -o1>out | d", tmp_path)[1] == ["out"]
    assert sorted(run("a 'b c' -o1 | d", tmp_path)[0]) == [["a", "b c", "-o1"], ["d"]]


def test_bash_and_the_parser_agree_on_a_sample_of_scripts(tmp_path: Path) -> None:
    """S4-26: a word that only bash sees would be an option nobody checked."""
    assert differences(1, 100, tmp_path) == []


def test_a_rule_that_denies_sees_what_bash_runs_of_a_heredoc(tmp_path: Path) -> None:
    """In its text, behind its mark, and behind its end."""
    assert unseen(1, 100, tmp_path) == []


def test_a_rule_that_denies_sees_what_bash_runs_in_any_way(tmp_path: Path) -> None:
    """S4-26: behind quotes, expansions, functions, traps and names that bash looks up."""
    found, ran = unseen_ways(1, 200, tmp_path)

    assert found == []
    assert ran > 10, "most of the scripts run what they hide"


@pytest.mark.slow
def test_a_rule_that_denies_sees_what_bash_runs_in_10000_ways(tmp_path: Path) -> None:
    """The same as above, for more scripts."""
    assert unseen_ways(2, 10_000, tmp_path)[0] == []


@pytest.mark.slow
def test_a_rule_that_denies_sees_what_bash_runs_of_2000_heredocs(tmp_path: Path) -> None:
    """The same as above, for more scripts."""
    assert unseen(2, 2_000, tmp_path) == []


@pytest.mark.slow
def test_bash_and_the_parser_agree_on_2000_plain_scripts(tmp_path: Path) -> None:
    """The same as above, for more scripts."""
    assert differences(2, 2_000, tmp_path) == []
