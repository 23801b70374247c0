"""What rules about commands cover: allow rules need to understand everything, deny rules do not."""

import shlex
from pathlib import Path

import pytest

from agent_cli.contracts.errors import SettingsError
from agent_cli.policies.shell import (
    CommandRules,
    Judgement,
    Reach,
    command_rule,
    judge,
    session_prefixes,
)
from tests.tables import each_row


def judged(script: str, *, allow: str = "", ask: str = "", deny: str = "") -> Judgement:
    """Judge *script* in an empty place; rules of one kind are separated by commas."""
    each = [
        [command_rule(text.strip()) for text in rules.split(",") if text]
        for rules in (allow, ask, deny)
    ]
    rules = CommandRules(allow=each[0], ask=each[1], deny=each[2])
    return judge(script, rules, Reach(root=Path("/nowhere")))


@each_row(
    "script",
    [
        "npm run build",
        "npm run",
        "/usr/bin/npm run build",
        "'npm' \"run\" x",
        "n\\pm run x",
        "npm --silent run x",
        "npm --prefix web run x",
        "ls && npm run x",
        "ls | npm run x",
        "ls & npm run x",
        "if true; then npm run x; fi",
        "for i in 1; do npm run x; done",
        "f() { npm run x; }; f",
        "(cd web; npm run x)",
        "echo $(npm run x)",
        "echo `npm run x`",
        'echo "${y:-$(npm run x)}"',
        "cat <(npm run x)",
        "cat <<E\n$(npm run x)\nE",
        "A=1 npm run x",
        "timeout -s KILL 5 npm run x",
        "time nice -n 5 nohup stdbuf -o0 npm run x",
        "command npm run x",
        "builtin command npm run x",
        "env -i A=1 npm run x",
        "env -S 'npm run x'",
        "env -S'npm run x'",
        'env -iS"npm run" x',
        "env --split-string='npm run x'",
        "env -Snpm run x",
        "rbash -c 'npm run x'",
        "/usr/local/bin/bash-5.2 -c 'npm run x'",
        "mksh -c 'npm run x'",
        "let 'a[$(npm run x)]'",
        "printf -v 'a[$(npm run x)]' y",
        "read 'a[$(npm run x)]'",
        "test -v 'a[$(npm run x)]'",
        "[ -v 'a[$(npm run x)]' ]",
        "[[ -v 'a[$(npm run x)]' ]]",
        "[[ 'a[$(npm run x)]' -eq 1 ]]",
        "declare -n 'y=a[$(npm run x)]'",
        "unset 'a[`npm run x`]'",
        "sudo -u root npm run x",
        "xargs -n1 npm run",
        "find . -exec npm run {} ';'",
        "bash -c 'npm run x'",
        "bash -xc 'cd web; npm run x'",
        "sh -c \"bash -c 'npm run x'\"",
        "eval 'npm run x'",
        "eval npm run x",
        "eval npm 'run x'",
        "trap 'npm run x' EXIT",
        "watch 'npm run x'",
        "2>/dev/null npm run x",
        "$'\\x6epm' run x",
        "echo `$\\'npm\\' run x`; : `n\\$''pm run x`",
        "declare 'PS4=$(npm run x)'; set -x; :",
        "x=a['$(npm run x)']; : $((x))",
        "compgen -W '$(npm run x)'",
        "mapfile -C$'npm\\x20run x' -c 1 <<< a",
        "command tar cf a --checkpoint-action=exec='npm run x' .",
        "ssh -o ProxyCommand='npm run x' host",
        "ssh -oProxyCommand='npm run x' host",
        "ssh -o 'ProxyCommand npm run x' host",
        "echo `echo '`; npm run x; echo `'`",
        "npm > out.txt run x",
        "npm 2>/dev/null run x",
        "ls && npm 2>/dev/null run x",
        "ls | npm run 2>/dev/null x",
        "! npm 2>/dev/null run x",
        "npm run x; ls 'a",
        'ls "a; npm run x',
        "while npm run x; do",
        "ls; " * 3_000 + "npm run x",
        "; ".join(["ls"] * 60) + "; npm run x",
        "ls\u00a0; npm run x",
        "{npm,run,x}",
    ],
)
def test_deny_rule_finds_its_command_anywhere_in_a_script(script: str) -> None:
    """However deep, after any prefix, and with no limit that skips the rest."""
    assert judged(script, deny="npm run *").verdict == "deny"


@each_row(
    ("mark", "line", "verdict"),
    [
        ("E", "`npm run x`", "deny"),
        ("E", "a `b` \\`c\\` `'npm' run x` d", "deny"),
        ("E", "`cat <<F\n\\`npm run x\\`\nF\n`", "deny"),
        ("$E", "`npm run x`", "deny"),
        ("E", "a \\`npm run x\\`", "undecided"),
        ("'E'", "`npm run x`", "allow"),
        ("\\E", "`npm run x`", "undecided"),
    ],
)
def test_deny_rule_finds_its_command_in_backquotes_in_a_heredoc(
    mark: str, line: str, verdict: str
) -> None:
    """The parser takes them for text."""
    end = mark.strip("'\\")
    assert judged(f"cat <<{mark}\n{line}\n{end}\n", deny="npm run *").verdict == verdict


def test_deny_rule_finds_its_command_behind_a_mark_with_a_blank() -> None:
    """For the parser, the mark goes on behind it, and no error shows that."""
    script = "cat <<-E\\ | npm run x\n\\\nF\nE\n \"$(cat <<- 'E' && a\n\n\tE\n)\"c x"

    assert judged(script, deny="npm run *").verdict == "deny"


def test_loss_in_backquotes_in_a_heredoc_is_asked_about() -> None:
    assert judged("cat <<E\n`git reset --hard`\nE\n", allow="*").verdict == "ask"


def test_deny_rule_sees_an_option_that_looks_like_part_of_a_redirect() -> None:
    """Bash reads `sort -oa1>b` as an option and a redirect."""
    assert judged("cat x | sort -oa1>/dev/null", deny="sort -oa1").verdict == "deny"


@each_row(
    "script",
    [
        "$x run build",
        "npm $x build",
        'npm "$x"',
        "npm r*n x",
        "$(echo npm) run x",
        '$"npm" run x',
        "echo npm run x | xargs -n1 timeout 5",
        "echo npm run x | xargs -I% sh -c %",
        "find . -exec sh -c '{}' +",
        "BASH_ALIASES[x]='npm run x'\nx",
        "read PS4 <<< '$(npm run x)'; set -x; :",
        "/usr/bin/n?m run x",
        "{n,}pm run x",
        "echo npm run x | sh",
        "bash < script",
        "bash <<E\nnpm run x\nE",
        'bash -c "$x"',
        "bash /dev/stdin",
        "eval $x",
        "echo run x | xargs npm",
        "source <(echo npm run x)",
        ". <(echo npm run x)",
        "bash <(echo npm run x)",
        "bash -x <(echo npm run x)",
        "echo npm run x | xargs env",
        "echo npm run x | xargs -n3 env A=1",
        "echo npm run x | xargs sudo",
        "find . -exec env {} +",
        "sh /dev/stdin <<< 'npm run x'",
        "ls 'a",
    ],
)
def test_script_that_a_deny_rule_cannot_read_asks_despite_an_allow_rule(script: str) -> None:
    """The unreadable part could be the denied command."""
    judgement = judged(script, allow="*", deny="npm run *")

    assert judgement.verdict == "ask"
    assert judgement.rule == "npm run *"


@each_row(
    "script",
    [
        "npm runner",
        "npm test",
        "echo 'npm run x'",
        "echo 'a[$(npm run x)]'",
        "source .venv/bin/activate",
        "find . | xargs timeout 5 wc",
        "[ -f 'a b' ]",
        "git commit -m 'npm run x'",
        "grep 'npm run' README.md",
        "python $file",
        "[ -f package.json ] && npm test",
        "npm test \\\n  -- 'a b' \\\n c # d",
    ],
)
def test_deny_rule_does_not_affect_other_commands(script: str) -> None:
    """Users soon remove a rule that blocks too much."""
    assert judged(script, deny="npm run *").verdict not in ("deny", "ask")


@each_row(("depth", "verdict"), [(4, "deny"), (5, "ask")])
@each_row("starts", ["bash -c", "eval"])
def test_deny_rule_finds_its_command_four_scripts_deep(
    starts: str, depth: int, verdict: str
) -> None:
    """A script nested deeper may run anything, and a person has to look at it."""
    script = "npm run x"
    for _ in range(depth):
        script = f"{starts} {shlex.quote(script)}"

    assert judged(script, deny="npm run *").verdict == verdict


@each_row(
    ("script", "verdict"),
    [
        ("find . ! -name npm", "allow"),
        ("find . -name npm", "allow"),
        ("find . -name x -exec npm {} +", "deny"),
        ("find . $x npm {} +", "deny"),
        ("fd npm", "undecided"),
        ("fdfind -e js npm src --exclude npm", "undecided"),
        *(("fd x -x npm", "deny"), ("fd -Hx npm", "deny"), ("fd -xnpm", "deny")),
        *(("fd . -X npm {}", "deny"), ("fd --exec npm", "deny"), ("fdfind -gx npm", "deny")),
        *(("fd --exec-batch=npm", "deny"), ("fd $x npm", "deny"), ("fd -x env npm", "deny")),
    ],
)
def test_deny_rule_finds_only_the_command_that_find_runs(script: str, verdict: str) -> None:
    """A name that is looked for is no program."""
    assert judged(script, deny="npm *").verdict == verdict


def test_deny_rule_of_many_words_finds_its_command_behind_a_wrapper() -> None:
    """Each word may be the program; as many behind it are compared as a rule has."""
    words = " ".join(f"w{number}" for number in range(32))

    assert judged(f"nice -n 5 {words}", deny=words).verdict == "deny"


@each_row("options", [1, 31, 32, 400, 3_000])
def test_deny_rule_finds_its_command_behind_any_number_of_options(options: int) -> None:
    """Many options in vain would be a way around it."""
    assert judged(f"git {'-c a=b ' * options} push x", deny="git push *").verdict == "deny"


@each_row(("options", "verdict"), [(32, "deny"), (400, "deny"), (3_000, "ask")])
def test_wrapped_command_of_any_number_of_options_is_denied_or_asked_about(
    options: int, verdict: str
) -> None:
    script = f"nice git {'-c a=b ' * options} push x"

    assert judged(script, deny="git push *").verdict == verdict


@each_row(("count", "verdict"), [(32, "deny"), (33, "ask")])
def test_deny_rule_of_32_words_finds_its_command_among_a_thousand(count: int, verdict: str) -> None:
    """So many are compared there from each word on; behind a longer rule a person decides."""
    words = " ".join(f"w{number}" for number in range(count))

    assert judged(f"nice {words} {'x ' * 1_000}", deny=f"{words} *").verdict == verdict


def test_deny_rule_of_many_words_finds_its_command_behind_options() -> None:
    words = " ".join(f"w{number}" for number in range(50))

    assert judged(f"git -C x {words}", deny=f"git {words}").verdict == "deny"


@each_row(
    ("script", "verdict"),
    [
        ("npm run build", "allow"),
        ("npm run", "allow"),
        ("npm run build 2>&1 | head -5", "allow"),
        ("npm run a && npm run b", "allow"),
        ("npm run *.js", "allow"),
        ("npm run build; rm x", "undecided"),
        ("npm run build > out.txt", "undecided"),
        ("npm run $(rm x)", "undecided"),
        ("npm run 'a", "undecided"),
        ("npm run a & rm x", "undecided"),
        ("npm runner", "undecided"),
        ("npm r*n x", "undecided"),
        ("./npm run build", "undecided"),
        ("A=1 npm run build", "undecided"),
        ("bash -c 'npm run build'", "undecided"),
        ("CI=1 NODE_ENV=test npm run build", "allow"),
        ("CI=1 LD_PRELOAD=x npm run build", "undecided"),
        ("LANG=./locale npm run build", "undecided"),
        ("CI=$(rm x) npm run build", "undecided"),
        ("CI=1{a,b} npm run build", "undecided"),
        ("CI=1; npm run build", "undecided"),
        ("PAGER=./x npm run build", "undecided"),
        ("timeout 60 npm run build", "allow"),
        ("time timeout 5m nice -n 10 npm run build", "allow"),
        ("timeout $x npm run build", "undecided"),
        ("timeout 60 rm x", "undecided"),
        ("timeout 60 npm run build < x", "undecided"),
        ("sudo npm run build", "undecided"),
    ],
)
def test_allow_rule_must_cover_every_command_of_a_plain_script(script: str, verdict: str) -> None:
    """Only the exact words of the rule, under exactly that name, count, after what only limits."""
    assert judged(script, allow="npm run *").verdict == verdict


@each_row(
    ("rule", "script", "verdict"),
    [
        ("rg *", "rg --pre ./x TODO", "undecided"),
        ("rg *", "rg --pre=./x TODO", "undecided"),
        ("rg *", "rg -z TODO ..", "allow"),
        ("rg --pre ./x *", "rg --pre ./x TODO", "allow"),
        ("rg --pre ./x TODO", "rg --pre ./x TODO", "allow"),
        ("*", "rg --pre ./x TODO", "allow"),
        ("sort *", "sort -o b ../a", "undecided"),
        ("sort *", "sort -uo b ../a", "undecided"),
        ("sort *", "sort --comp ./x ../a", "undecided"),
        ("sort *", "sort -u ../a", "allow"),
        ("tar *", "tar -I ./x -cf a.tar b", "undecided"),
        ("tar *", "tar cIf ./x a.tar b", "undecided"),
        ("tar *", "tar cf a.tar --checkpoint=1 --checkpoint-action=exec=./x b", "undecided"),
        ("tar *", "tar cf a.tar *", "undecided"),
        ("tar *", "tar cf a.tar -- *", "allow"),
        ("tar *", "tar xzf a.tar.gz -C Build", "allow"),
        ("tar *", "tar -cf Images.tar --exclude=*.o src", "allow"),
        ("find *", "find .. -name x -exec ./x {} +", "undecided"),
        ("find *", "find . -name x -fprint y", "undecided"),
        ("find *", "find .. -name x", "allow"),
        ("fd *", "fd x .. -x ./y", "undecided"),
        ("zip *", "zip -T -TT ./x a.zip b", "undecided"),
        ("split *", "split --filter=./x a", "undecided"),
        ("man *", "man -P ./x ls", "undecided"),
        ("go build *", "go build -toolexec ./x .", "undecided"),
        ("go build *", "go build -o app .", "allow"),
        ("git *", "git -c core.pager=./x log", "undecided"),
        ("git *", "git -c color.ui=never --no-pager commit -m x", "allow"),
        ("git *", "git -C web commit -m x", "allow"),
        ("git *", "git --exec-path=. status", "undecided"),
        ("git *", "git push -u origin main", "allow"),
        ("git *", "git bisect run ./x", "undecided"),
        ("git grep *", "git grep -O./x TODO", "undecided"),
        ("git --git-dir ../g grep *", "git --git-dir ../g grep -O./x TODO", "undecided"),
        ("git log *", "git log --output=b", "undecided"),
        ("git log *", "git log --output-indicator-new=+", "allow"),
        ("git fetch *", "git fetch --upload-pack ./x", "undecided"),
        ("git rebase *", "git rebase -x ./x main", "undecided"),
        ("git commit *", "git commit -x", "allow"),
        ("sqlite3 *", "sqlite3 a.db '.shell x'", "undecided"),
        ("sqlite3 *", "sqlite3 a.db 'select 1'", "allow"),
        ("psql *", "psql -c '\\! x'", "undecided"),
        ("xxd *", "xxd ../a b", "undecided"),
        ("xxd *", "xxd -r - b", "undecided"),
        ("xxd *", "xxd -l 64 ../a b", "undecided"),
        ("xxd *", "xxd -l 64 -s 8 ../a", "allow"),
        ("xxd *", "xxd -- -a b", "undecided"),
        ("xxd ../a *", "xxd ../a b", "undecided"),
        ("xxd ../a b *", "xxd ../a b", "allow"),
        ("uniq *", "uniq -c ../a b", "undecided"),
        ("uniq *", "uniq ../a* ", "undecided"),
        ("uniq *", "uniq -f 1 ../a", "allow"),
        ("cpp *", "cpp -D X ../a.c", "allow"),
        ("cpp *", "cpp ../a.c b", "undecided"),
        ("rst2html *", "rst2html a.rst b", "undecided"),
        ("ps2ascii *", "ps2ascii a.ps b", "undecided"),
        ("less *", "less -o b ../a", "undecided"),
        ("iconv *", "iconv -f latin1 -o b ../a", "undecided"),
        ("iconv *", "iconv -f latin1 -t utf8 ../a", "allow"),
        ("file *", "file -C -m ../a", "undecided"),
        ("make *", "make CC=gcc all", "allow"),
        ("npm test *", "npm test -- --pre -o x", "allow"),
    ],
)
def test_star_of_an_allow_rule_covers_no_option_that_runs_a_program_or_writes_a_file(
    rule: str, script: str, verdict: str
) -> None:
    """Said of searches, `rg *` must not run `rg --pre PROGRAM`; nor by the name of a file."""
    assert judged(script, allow=rule).verdict == verdict


def test_workspace_program_named_like_a_wrapper_is_not_passed_over(tmp_path: Path) -> None:
    """A `timeout` of the workspace runs what it likes."""
    own = tmp_path / "bin/timeout"
    own.parent.mkdir()
    own.touch(mode=0o755)
    rules = CommandRules(allow=[command_rule("npm run *")])
    paths = ("/nowhere", str(own.parent))

    verdicts = [
        judge(
            "timeout 60 npm run build", rules, Reach(root=tmp_path.resolve(), search_path=path)
        ).verdict
        for path in paths
    ]

    assert verdicts == ["allow", "undecided"]


COMMIT = "git commit -m \"$(cat <<'EOF'\nfix: it\n\nBecause.\nEOF\n)\""


def test_allow_rule_covers_a_command_with_a_text_in_a_heredoc() -> None:
    """The heredoc only reads; what else the script does is judged as ever."""
    scripts = (COMMIT, f"{COMMIT} && git push", f"{COMMIT} && make", COMMIT.replace("'", ""))

    verdicts = [judged(each, allow="git commit *", deny="git push *").verdict for each in scripts]

    assert verdicts == ["allow", "deny", "undecided", "undecided"]
    assert session_prefixes(COMMIT, Reach(root=Path("/nowhere"))) == ("git commit *",)


@each_row(
    ("begin", "text", "verdict"),
    [
        ("git reset ", "--hard", "ask"),
        ("python3 -c ", 'import shutil; shutil.rmtree("/")', "ask"),
        ("bash -c ", "rm -rf ~", "ask"),
        ("bash -c ", "git push", "deny"),
        ("git commit -m ", "Say why `rm -rf ~` and $(git push) are refused", "allow"),
    ],
)
def test_text_in_a_heredoc_is_judged_as_the_text_in_quotes(
    begin: str, text: str, verdict: str
) -> None:
    """What is lost, and a rule that denies, must not be missed where a rule allows the program."""
    allow = "git reset *,git commit *,python3 *,bash *"

    verdicts = [
        judged(f"{begin}{written}", allow=allow, deny="git push *").verdict
        for written in (f"'{text}'", f"\"$(cat <<'EOF'\n{text}\nEOF\n)\"")
    ]

    assert verdicts == [verdict, verdict]


@pytest.mark.parametrize("message", ["'fix: it'", COMMIT.removeprefix("git commit -m ")])
@pytest.mark.parametrize("separator", [" && ", "; ", "\n"])
def test_allow_rule_covers_a_commit_in_another_folder(
    tmp_path: Path, message: str, separator: str
) -> None:
    """A text in a heredoc must not hide that the script begins with `cd`."""
    (tmp_path / "sub").mkdir()
    rules = CommandRules(allow=[command_rule("git commit *")], ask=[], deny=[])

    judgement = judge(f"cd sub{separator}git commit -m {message}", rules, Reach(root=tmp_path))

    assert judgement.verdict == "allow"


@each_row(
    ("script", "verdict"),
    [
        ("git add x && \\\n  git commit \\\n    -m x", "allow"),
        ("git add x \\\n  && git commit -m x", "allow"),
        ("git add x && \\\n  rm x", "undecided"),
        ("git ad\\\nd x", "undecided"),
        ("git commit -F - <<'E'\nfix: $(it)\n\nBecause # `that`.\nE", "allow"),
        ("git add x && git commit -F - <<'E'\nfix\nE\ngit add y", "allow"),
        ("git commit -F - <<'E' | git add x\nfix\nE", "allow"),
        ("git commit -F - <<'E'\nfix\nE\nrm x", "undecided"),
        ("git commit -F - <<'E' && rm x\nfix\nE", "undecided"),
        ("git commit -F - <<'E' > x\nfix\nE", "undecided"),
        ("git commit -F - <<E\n$(rm x)\nE", "undecided"),
        ("git commit -F - <<'E'\nfix\n E\nrm x", "undecided"),
        ("git commit -F - # <<'E'\nrm x\nE", "undecided"),
        ("git commit -F - <<'E' \\\n--amend\nfix\nE", "undecided"),
        ("git commit -F - <<'E'; git add 'x\n'; rm x; '\nE\n'", "undecided"),
        ('git commit -F - <<\'E\'; git add "x\n"; rm x; "\nE\n"', "undecided"),
        ("git commit -F '- <<'E'\nfix\nE", "undecided"),
        ("(git commit -F - <<'E')\nfix\nE", "undecided"),
        ("xargs git add <<'E'\nx\nE", "undecided"),
        ("cat <<'E' | xargs cat\n/etc/passwd\nE", "undecided"),
        ("cat <<'E'\nrm x\nE", "allow"),
        ("ls\n << 'E'ls\nEls\nrm x\nE", "undecided"),
        ("ls; << 'E'ls\nEls\nrm x\nE", "undecided"),
        ("ls; << 'E' xargs cat\n/etc/passwd\nE", "undecided"),
        ("git commit -F - <<E && git add y\nfix: it's (x)\nE", "allow"),
        ("git commit -F - <<< 'fix: $(x)'; git add y", "allow"),
        ('git commit -F - <<<"fix (x)"', "allow"),
        ("wc -l <<< hello", "allow"),
        ("git commit -F - <<E\nfix $(rm x)\nE", "undecided"),
        ("git commit -F - <<E\nfix `rm x`\nE", "undecided"),
        ("git commit -F - <<E\n$x\nE", "undecided"),
        ("git commit -F - <<E\nfix\\\nE\nrm x\nE", "undecided"),
        ("git commit -F - <<E-F\nE-F\nrm x\nE", "undecided"),
        ("git commit -F - <<E\nfix\nE\nrm x", "undecided"),
        ('git commit -F - <<< "$(rm x)"', "undecided"),
        ("git commit -F - <<< $x", "undecided"),
        ("git commit -F - <<< 'fix' --amend; rm x", "undecided"),
        ("git commit -F - <<< 'fix'\nrm x", "undecided"),
        ("git commit -F - <<< a > x", "undecided"),
        ("xargs git add <<< x", "undecided"),
        ("cat <<< /etc/passwd | xargs cat", "undecided"),
        ("wc --files0-from=- <<< /etc/passwd", "undecided"),
        ("sed -f - a.txt <<< 'w x'", "undecided"),
        ("awk -f - <<E\nBEGIN { print 1 }\nE", "undecided"),
        ("bash <<E\nls\nE", "undecided"),
    ],
)
def test_allow_rule_covers_continued_lines_and_a_text_as_input(script: str, verdict: str) -> None:
    """As bash reads them: a text in which nothing expands is the input of one command."""
    assert judged(script, allow="git add *,git commit *").verdict == verdict


def test_only_the_first_texts_of_a_script_are_taken_for_input() -> None:
    """S4-28: each is parsed with all behind it, so 300 of them held the prompt for 12 seconds."""
    twenty, more = (
        "".join(f"git commit -F - <<'E{at}'\nx\nE{at}\n" for at in range(count))
        for count in (20, 21)
    )

    assert judged(twenty, allow="git commit *").verdict == "allow"
    assert judged(more, allow="git commit *").verdict == "undecided"


def test_first_rule_of_several_about_a_program_is_named() -> None:
    """A rule about every command counts where it stands, also for a program without a rule."""
    several = CommandRules(deny=[command_rule(each) for each in ("a x", "b *", "*", "/bin/a *")])

    ruled = [
        judge(script, several, Reach(root=Path("/nowhere"))).rule
        for script in ("a x", "a y", "b", "c", "B", "$x")
    ]

    assert ruled == ["a x", "*", "b *", "*", "b *", "*"]


def test_command_rule_without_a_star_matches_exactly_its_words() -> None:
    assert judged("make test", allow="make test").verdict == "allow"
    assert judged("make test x", allow="make test").verdict == "undecided"
    assert judged("make test x", deny="make test").verdict == "undecided"
    assert judged("make test $x", deny="make test").verdict == "ask"


def test_deny_rules_override_ask_rules_and_ask_rules_override_allow_rules() -> None:
    """No allow rule can permit what another rule denies."""
    assert judged("a b", allow="a *", ask="a *", deny="a b").verdict == "deny"
    assert judged("a c", allow="a *", ask="a c", deny="a b").verdict == "ask"
    assert judged("a d", allow="a *", ask="a c", deny="a b").verdict == "allow"


def test_the_judgement_names_rule_construct_and_commands() -> None:
    """The output of `permissions explain`."""
    judgement = judged("npm run x > $out && echo $y", ask="npm *")

    assert judgement == Judgement(
        verdict="ask",
        reason="the rule npm * asks",
        rule="npm *",
        construct="contains $out, whose value is not known",
        commands=("npm run x", "echo ?"),
    )


@each_row("written", ["npm * run", "npm 'run", "* x"])
def test_invalid_command_rule_is_refused(written: str) -> None:
    with pytest.raises(SettingsError, match="is not a rule"):
        command_rule(written)


@each_row("written", [None, "*", ""])
def test_command_rule_without_words_matches_every_command(written: str | None) -> None:
    rule = command_rule(written)
    reach = Reach(root=Path("/nowhere"))

    assert judge("$x", CommandRules(deny=[rule]), reach).verdict == "deny"
    assert judge("any x", CommandRules(allow=[rule]), reach).verdict == "allow"
    assert judge("any $x", CommandRules(allow=[rule]), reach).verdict == "undecided"


@each_row(
    "script",
    [
        "rm -rf /",
        "rm -rf ~",
        "rm -fr ~/x",
        "rm -r --force ..",
        "rm --recursive .",
        "rm -rf /etc",
        "rm -rf $HOME",
        'rm -rf "$x"/',
        "rm -rf *",
        "rm -rf .git",
        "rm -rf /nowhere",
        "sudo rm -rf /",
        "bash -c 'rm -rf /'",
        "echo / | xargs rm -rf",
        "cat x | rm 2>/dev/null -rf /",
        "cd .. && rm -rf work",
        "cd; rm -rf x",
        'cd "$x"; rm -rf build',
        "cd -- /etc && rm -r x",
        "rm --recurs ..",
        "! ! rm -rf /",
        "ls\n\\rm -rf /",
        "ls \n\\\nrm -rf /",
        '"r"\\m -rf /',
        "r\\\nm -rf /",
        "ls > x #c\nrm -rf /",
        "find -L / -delete",
        'find "$x" -delete',
        "git push -f",
        "git push -uf origin main",
        "git push --force-with-lease origin main",
        "git -C x push origin +main",
        "git push origin :main",
        "git reset --hard HEAD~1",
        "git clean -fdx",
        "git branch -D x",
        "git checkout .",
        "git checkout -f main",
        "git stash drop",
        *("git reset --har HEAD~1", "git checkout ./", "git checkout :/", "git checkout -qf main"),
        *("git switch -f main", "git switch --discard-changes main", "git restore ./"),
        *("git branch -d -f x", "git branch --delete --force x", "git branch -Dr x"),
        *("git push --forc", "git clean --forc", "git -c clean.requireForce=false clean -d"),
        *("git reflog delete x", "git filter-repo --path x", "git worktree remove --force x"),
        *("git read-tree --reset -u HEAD", "git checkout-index -af", "rm -rf sub/.git"),
        *("rm -rf .git/objects", "rm -r sub/.git/refs/heads/", "find .git/objects -delete"),
        *("docker system prune -af", "docker compose down -v", "kubectl delete ns x"),
        *("terraform destroy", "crontab -r", "dropdb x", "python3 -m twine upload x"),
        *("find . -delete", "find . -type f -exec rm {} +", "find . -execdir shred x ';'"),
        *("git restore src", "git restore -SW x", "chmod -R 000 src", "chmod -R a-r ."),
        *("rsync -a --delete a/ b/", "rsync --remove-source-files a b", "truncate -s 0 x"),
        *("git checkout -- x", "git checkout HEAD~1 x", "git checkout --theirs x", "git rm -rf ."),
        *("git gc --prune=now", "find . ! -name x -print | xargs rm"),
        *("find . -type f | xargs rm -f", "git ls-files -z | xargs -0 rm", "ls | parallel rm"),
        *('for f in *; do rm "$f"; done', "for f in ./*; do echo $f; rm -- ${f}; done"),
        *(
            "find . -name '*' -delete",
            "find . -name x -o -delete",
            "find . ! -name x -exec rm {} +",
            "find . -delete -name '*.pyc'",
            "find . -exec rm {} + -name x",
            "find . '(' -name x -o -type f ')' -delete",
            "find . ! '(' -name x ')' -delete",
            "find . -name x -prune -o -delete",
            "find . -name x -prune -o -print0 | xargs -0 rm",
            "find . -path './.git/*' -delete",
            "find . -regex '.*' -delete",
            "find . -exec sudo rm {} +",
            "cd .. && find build -delete",
        ),
        *(
            "find . -name .git -exec rm -rf {} +",
            "find . -name '.*' -exec rm -rf {} +",
            "find . -name x -exec rm -rf {}/.. ';'",
            "find . -name x -exec rm -rf {} + -exec rm -rf ~ ';'",
            'find . -name x -exec rm -rf "$d" {} +',
            "find / -name x -exec rm -rf {} +",
            "cd .. && find . -name x -exec rm -rf {} +",
            "find . " + "'(' " * 2_000 + "-delete",
            "find -L node_modules -type f -delete",
            "find -L . -name '*.pyc' -delete",
            "find -files0-from x -name a -delete",
            "find ~/x -name '*.py' -exec rm {} +",
            "find /srv/x -name '*.py' -execdir sh -c 'rm {}' ';'",
            "find build -follow -exec rm {} +",
            "find -- / -name x -delete",
            'find . -name "$x" -exec rm -rf {} +',
            'find $a/b$c | grep -E "(x|y$)" | xargs rm -rf',
            "find . -path '*/.*' -delete",
            "find . -regex '.*/\\.git/.*' -delete",
        ),
        *("fd --changed-before 2d -x rm", "fd --search-path src -X rm"),
        *("fd -gx rm", "fd -ilx rm {}", "fd -FX rm", "fdfind -Hgx /bin/rm", "fd -t f -1qX rm"),
        *("fd -x rm", "fd . src -X rm -f {}", "fdfind --exec-batch=rm", "fd -t f -Hx /bin/rm"),
        *('ls -A | while read -r f; do rm "$f"; done', "find . -exec sh -c 'rm $1' _ {} ';'"),
        *("perl -e 'unlink glob \"*\"'", "python3 -c 'for f in os.listdir(): os.remove(f)'"),
        *("perl -e 'unlink <*>'", "git submodule deinit -f ."),
        "mapfile -tC 'rm -rf /' -c1 a",
        "npm publish",
        "npm unpublish x",
        "cargo publish",
        "twine upload dist/x",
        "docker push x",
        "gh release create v1",
        "dd if=x of=/dev/sda",
        "mkfs.ext4 /dev/sda",
        "shutdown now",
        *("curl -sX DELETE http://h/x", "curl -sXDELETE http://h/x"),
        *("systemctl reboot", "systemctl --force poweroff", "docker-compose down -v"),
        *("helm del x", "aws s3 sync a s3://b --delete"),
        *("gh issue delete 1", "gh secret delete X", "gh repo archive x", "gh cache delete --all"),
    ],
)
def test_an_irreversible_command_asks_despite_any_allow_rule(script: str) -> None:
    """Threat 19: even in the mode that asks nothing."""
    assert judged(script, allow="*").verdict == "ask"


def test_checkout_of_an_existing_file_asks(tmp_path: Path) -> None:
    """Threat 19: without the file, the name is a branch, and git refuses to lose changes."""
    (tmp_path / "a.txt").touch()
    reach = Reach(root=tmp_path)

    assert judge("git checkout a.txt 2>/dev/null", CommandRules(), reach).verdict == "ask"
    assert judge("git checkout b.txt 2>/dev/null", CommandRules(), reach).verdict == "undecided"


@each_row(
    "script",
    [
        *("rm -rf build", "rm x", "git push", "git push -u origin main", "git clean -n"),
        *("cd src && rm -rf build", "cd ./a/b; rm -r x", "cd /nowhere && rm -r x"),
        *("cd . && rm -r x", "git reset", "npm test"),
        *("git checkout -b fix", "git checkout main", "git switch -c fix", "git branch -d x"),
        *("git commit -m 'drop x'", "git worktree add x", "git worktree remove x", "git stash"),
        *("git push --follow-tags", "git switch main", "git restore --staged x", "docker build ."),
        *("git branch --format=x", "git log --format=x", "docker compose down", "crontab -l"),
        *("find . -name '*.pyc' -delete", "find . -name x -exec rm {} +", "git restore -S x"),
        *("chmod -R 755 src", "chmod -R u+x x", "rsync -a a b", "truncate -s +1M x"),
        *("git checkout main 2>/dev/null", "git checkout -b fix origin/main", "git rm x", "git gc"),
        *("git rm -rf --cached x", "git checkout --track origin/x", "git remote rm x"),
        *("find . -name '*.pyc' -print0 | xargs -0 rm", "grep -l x *.log | xargs rm"),
        *("find . '(' -name a -o -name b ')' -delete", "find . -name a -o -name b -delete"),
        *(
            "find build -type f -delete",
            "find /tmp -name 'x*' -exec rm {} +",
            "find -P -O3 -D rates -- ./build dist -exec rm {} +",
            "find . -path '*/.*' -prune -o -name a -delete",
            "find . -path './*/a.pyc' -delete",
            "find . -regex '.*/a[.]pyc' -delete",
            "find ./ -name a -delete",
        ),
        *(
            "find . -path ./.git -prune -o -name a -delete",
            "find . ! -path './.git/*' -name a -delete",
        ),
        *("find . -name a -exec rm -rf {} +", "find . -type d -name a -prune -exec rm -r '{}' ';'"),
        *("find build -mindepth 1 -exec rm -rf {} +", "sudo find . -name a -exec rm -rf {} +"),
        *("fd -ge pyc -x rm", "fd -Fix wc", "fd -tx foo -x wc"),
        *("fd -e pyc -x rm", "fd '[.]pyc$' -X rm {}", "fd -x wc -l", "fd -t f -g '*.o' -x rm"),
        *("perl -e 'unlink \"x\"'", "node -e 'fs.rmSync(\"x\")'", "git submodule update"),
        *("python3 -c 'import glob; [os.remove(f) for f in glob.glob(\"*.o\")]'", "read x; rm y"),
        *("git remote prune origin", "git worktree prune", "systemctl status x"),
        *("curl -sX POST http://h/x", "gh issue list", "gh issue view 1", "docker-compose down"),
        *("for f in a b; do rm $f; done", "ls | xargs wc -l", "rm x; find . -name a | xargs cat"),
    ],
)
def test_reversible_commands_are_left_to_the_rules(script: str) -> None:
    assert judged(script, allow="*").verdict == "allow"


@each_row(
    "starter",
    [
        *("setpriv --nnp", "prlimit -n5", "setarch -R", "choom -n 5 --", "numactl -N 0", "sem"),
        *("systemd-run --user", "dbus-run-session --", "xvfb-run -a", "fakeroot", "eatmydata"),
        *("faketime 2020-01-01", "rlwrap", "torsocks", "proxychains -q", "cgexec -g cpu:x"),
    ],
)
def test_program_behind_a_starter_is_denied(starter: str) -> None:
    """Deny rules missed what these run."""
    assert judged(f"{starter} curl x", deny="curl *").verdict == "deny"
    assert judged("sg group -c 'curl x'", deny="curl *").verdict == "deny"


@each_row(
    "script",
    [
        *("mapfile -C 'curl x' -c 1 a <f", "readarray -Ccurl a", "mapfile -tC 'echo; curl x' a"),
        *("hash -p /usr/bin/curl ls; ls x", "hash -p/bin/curl ls"),
        *("compgen -C 'curl x' a", "shopt -s expand_aliases\nalias a='curl -s'\na x"),
        *("PS4='$(curl x)'; set -x; ls", "declare -x PROMPT_COMMAND='curl x'; bash -i"),
        *("x='a[$(curl x)]'; echo $((x))", "bind -x '\"\\C-a\": curl x'"),
    ],
)
def test_program_that_a_shell_builtin_calls_is_denied(script: str) -> None:
    """Deny rules missed what `mapfile` evaluates, and a name that `hash` gives a program."""
    assert judged(script, deny="curl *").verdict == "deny"


@each_row(
    "script",
    [
        *("enable -f ./x.so true", "enable -nf x.so y; y", "BASH_ENV=<(cat x) bash -c true"),
        *("export BASH_ENV=/dev/stdin; bash -c true <x", 'PS1="$x" bash -i'),
    ],
)
def test_code_that_bash_takes_from_elsewhere_may_be_any_program(script: str) -> None:
    assert judged(script, deny="curl *", allow="*").verdict == "ask"


@pytest.fixture
def reach(tmp_path: Path) -> Reach:
    return Reach(root=tmp_path.resolve())


@each_row(
    ("script", "expected"),
    [
        ("npm run build", ("npm run build *",)),
        ("npm test -- --watch", ("npm test *",)),
        ("git commit -m 'a b'", ("git commit *",)),
        ("git stash pop", ("git stash pop *",)),
        ("pytest -q tests", ("pytest *",)),
        ("uv run pytest -q", ("uv run pytest *",)),
        ("./gradlew build", ("./gradlew *",)),
        ("make", ("make",)),
        ("pytest -q 2>&1 | tail -5 && npm run x", ("pytest *", "npm run x *")),
        ("pytest a; pytest b", ("pytest *",)),
        ("CI=1 timeout 5 make test", ("make test *",)),
        ("a; b; c; d; e", ("a *", "b *", "c *", "d *", "e *")),
        ("tar xf a.tar", ("tar *",)),
        ("tar -I ./x -xf a.tar", ("tar -I ./x -xf a.tar",)),
        ("rg --pre ./x 'a b'", ("rg --pre ./x 'a b'",)),
        ("sort -o b a && npm test", ("sort -o b a", "npm test *")),
        ("cat ../a", ("cat ../a",)),
        ("xxd a b", ("xxd a b",)),
        ("xxd -l 64 a", ("xxd *",)),
        ("git log --output=b", ("git log --output=b",)),
        ("go build -toolexec ./x", ("go build -toolexec ./x",)),
    ],
)
def test_narrowest_prefix_of_each_command_is_offered(
    script: str, expected: tuple[str, ...], reach: Reach
) -> None:
    """S4-26: one for each command that does more than read; together they cover the call."""
    prefixes = session_prefixes(script, reach)
    rules = CommandRules(allow=[command_rule(prefix) for prefix in prefixes])

    assert prefixes == expected
    assert judge(script, rules, reach).verdict == "allow"


@each_row(
    "script",
    [
        "python -c 'x'",
        "python3.12 script.py",
        "/usr/bin/python -m pytest",
        "node -e x",
        "bash -c x",
        "sh script.sh",
        "sudo make",
        "env A=1 make",
        "find . -delete",
        "xargs rm",
        "git -C x commit",
        "git push",
        "git config a b",
        "rm x",
        "curl http://localhost",
        "timeout 5 python x",
        "nohup make test",
        "uv run python x",
        "npx x",
        "docker run x",
        "cd ..",
        "make test && rm x",
        "make > out.txt",
        "make $x",
        "npm -s run x",
        "mak\u200be",
        "a; b; c; d; e; f",
        "sort -o b *",
        f"sort -o {'b' * 120} a",
    ],
)
def test_no_prefix_is_offered_for_interpreters_shells_and_long_scripts(
    script: str, reach: Reach
) -> None:
    """Nor for programs that start others: nobody can know what such a rule would allow."""
    assert session_prefixes(script, reach) == ()
