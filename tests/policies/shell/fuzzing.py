"""Compose commands from pieces that bash and a parser may read differently."""

from random import Random

from agent_cli.policies.shell.programs import PROGRAMS

_PROGRAMS = (
    *("cat", "ls", "head", "tail", "wc", "sort", "uniq", "grep", "rg", "find", "sed", "diff"),
    *("cut", "tr", "du", "stat", "file", "tree", "nl", "od", "date", "echo", "printf", "test"),
    *("cd", "pwd", "type", "command", "which", "tac", "base64", "rm", "tee", "cp", "bash"),
    *("git", "xargs", "env", "eval", "awk", "touch", "true", "id", "basename", "comm", "fold"),
)
_HARMLESS_PROGRAMS = _PROGRAMS[:24]
_OPTIONS = (
    *("-n", "-l", "-la", "-r", "-R", "-o", "-i", "-e", "-c", "-f", "-v", "-x", "-u", "-w", "-d"),
    *("-n1", "-5", "-n 2", "-k2", "-t,", "-on", "-e x", "-A 1", "-c 3", "-s", "-E", "-z", "-p"),
    *("--", "-", "--color", "--color=always", "--output=out.txt", "--outp=out.txt", "--all"),
    *("--include=*.py", "--pre=cat", "--pre cat", "--files0-from=.env", "--recursive", "--hidden"),
    *("-name x", "-type f", "-maxdepth 1", "-delete", "-exec touch new.txt ';'", "-print"),
    *("-fprint out.txt", "-newer .env", "-i.bak", "-I", "-P x", "-L 1", "--follow", "--in-place"),
)
_PATHS = (
    *("data.txt", "README.md", "notes.md", "src", "src/main.py", ".", "..", ".env", "./.env"),
    *("certs", "certs/server.key", "links", "links/passwd", "links/environment", "links/outside"),
    *("links/outside/secret.txt", "../workspace-evil/secret.txt", "src/../.env", "*", "*.txt"),
    *(".*", ".e*", "src/*", "c*/*", "links/*", "odd/*", "[.]env", ".e?v", "~", "~/.ssh/id_rsa"),
    *("$HOME/.ssh/id_rsa", "/etc/passwd", "/dev/null", "/proc/self/environ", "out.txt", "new.txt"),
    *("//etc/passwd", "x=y", "1,2p", "a", "b", "$p", "1d", "+%s", "w out.txt", "%s", "s/a/b/w o"),
)
_REDIRECTS = (
    *("> out.txt", ">> data.txt", "2>/dev/null", ">/dev/null", "2>&1", ">&2", "&>/dev/null"),
    *("< .env", "<<< x", "2>/dev/null .env", ">& out.txt", "1>&2 .env", "</dev/null", ">|out.txt"),
    *("> /dev/nullx", '>"/dev/null"', ">/dev/null data.txt", "2>/dev/null>out.txt", "> 1", "2>1"),
)
_SUBSTITUTIONS = (
    *(
        "$(touch new.txt)",
        "`touch new.txt`",
        '"$(touch new.txt)"',
        "<(touch new.txt)",
        "${x:-.env}",
    ),
    *(
        "$x",
        '"$x"',
        "$'\\x2eenv'",
        '$".env"',
        "{.env,a}",
        "$((1))",
        "${x@P}",
        "\\.env",
        "a\\",
        "!x",
    ),
    *("\u00a0", "\u202e", "\r", "\x01", "#", "#x", "a#b", "''", '""', "\\\n", "é"),
)
_WRAPPERS = (
    *(
        "timeout 5",
        "time",
        "nice",
        "nohup",
        "command",
        "builtin",
        "env",
        "xargs",
        "exec",
        "!",
        "A=1",
    ),
    *(
        "timeout -k 1 5",
        "time -p",
        "nice -n 5",
        "command -v",
        "stdbuf -o0",
        "PATH=bin",
        "> out.txt",
    ),
)
_JOINS = (" | ", " && ", " || ", "; ", "\n", " & ", " |& ", "&&", "|", ";", " ;\n", " \\\n ")


def compose(seed: int) -> str:
    """Return the command of *seed*: the same one each time."""
    random = Random(seed)
    commands = [_simple(random) for _ in range(random.choice((1, 1, 1, 2, 2, 3)))]
    script = commands[0]
    for command in commands[1:]:
        script += random.choice(_JOINS[:6] if random.random() < 0.8 else _JOINS) + command
    if random.random() < 0.05:
        script = random.choice(
            ("({})", "{{ {}; }}", "if {}; then ls; fi", "echo $({})", "{} #x")
        ).format(script)
    return script


def _simple(random: Random) -> str:
    tame = random.random() < 0.75
    words = [random.choice(_HARMLESS_PROGRAMS if tame else _PROGRAMS)]
    if random.random() < 0.1:
        words.insert(0, random.choice(_WRAPPERS))
    for _ in range(random.choice((0, 1, 1, 2, 2, 2, 3, 4))):
        words.append(_argument(random))
    if random.random() < 0.2:
        words.insert(random.randrange(1, len(words) + 1), random.choice(_REDIRECTS))
    return " ".join(words)


def _argument(random: Random) -> str:
    kind = random.random()
    if kind < 0.35:
        return random.choice(_OPTIONS)
    if kind < 0.93:
        return _quoted(random, random.choice(_PATHS))
    return random.choice(_SUBSTITUTIONS)


def _quoted(random: Random, word: str) -> str:
    """Return *word* in a form that bash reads as the same word, or nearly so."""
    match random.randrange(8):
        case 0:
            return f"'{word}'"
        case 1:
            return f'"{word}"'
        case 2:
            at = random.randrange(len(word) + 1)
            return f"{word[:at]}''{word[at:]}"
        case 3:
            at = random.randrange(len(word) + 1)
            return f'"{word[:at]}"{word[at:]}'
        case 4 if random.random() < 0.3:
            at = random.randrange(len(word))
            return f"{word[:at]}\\{word[at:]}"
        case _:
            return word


_VALUES = (
    *(
        "1",
        "2",
        "x",
        ".env",
        "out.txt",
        "data.txt",
        "certs/server.key",
        "%n",
        "src",
        "-",
        "/",
        "+1",
    ),
    *(
        "../workspace-evil/secret.txt",
        "auto",
        "always",
        "w out.txt",
        ",",
        "c1",
        "x1",
        "1,2",
        "*.py",
    ),
)
_OPERANDS = (
    *("data.txt", "notes.md", "src", "src/main.py", ".", "links", "odd", "+1", "-", "src/*"),
    *("links/*", "*.txt", "./*", "o*/*", "out.txt", ".env", "1", "x"),
)


def compose_known(seed: int) -> str:
    """Return a program known to only read, with options known to only read.

    Values follow the options, are joined to them, or belong to others: the table's claim about an
    option must match the program.
    """
    random = Random(seed)
    name = random.choice(list(PROGRAMS))
    options = dict(PROGRAMS[name].options.takes_value)
    words = [name]
    for option in random.sample(list(options), min(len(options), random.choice((0, 1, 1, 2, 3)))):
        words += _with_value(random, option, options)
    if PROGRAMS[name].options.numbers and random.random() < 0.2:
        words.append(f"-{random.randint(1, 9)}")
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        words.insert(random.randint(1, len(words)), random.choice(_OPERANDS))
    return " ".join(words)


def _with_value(random: Random, option: str, options: dict[str, bool | None]) -> list[str]:
    """Return *option*, perhaps joined with others and with a value."""
    takes = options[option]
    value = f"'{random.choice(_VALUES)}'"
    joined = random.random() < 0.5
    if option.startswith("--"):
        if takes is False or (takes is None and not joined):
            return [option]
        return [f"{option}={value}"] if joined or takes is None else [option, value]
    letters = [each[1] for each, wants in options.items() if not wants and len(each) == 2]
    before = "".join(random.sample(letters, min(2, len(letters))))
    together = f"-{before}{option[1]}"
    if not takes:
        return [together]
    return [f"{together}{value}"] if joined else [together, value]


_INNER = (
    *("cat {}", "wc -l {}", "head -3 {}", "grep -n x {}", "grep -l a {} +", "ls -la {}", "file {}"),
    *("rm {}", "sort -o {} {}", "touch {}", "sed -n 1p {}", "sed -i p {}", "cat", "sh -c 'cat {}'"),
    *(
        "uniq {} out.txt",
        "cp {} out.txt",
        "stat {}",
        "md5sum {}",
        "echo {}",
        "tee {}",
        "diff {} {}",
    ),
    *("awk 1 {}", "tree {}", "rg x {}", "grep -r x {}", "basename {}", "cat x{}", "du -s {}"),
)
_STARTS = (
    "src",
    ".",
    "odd",
    "links",
    "certs",
    "src odd",
    "data.txt",
    "./src",
    "links/outside",
    "..",
)
_SCRIPT_TEXTS = (
    *(
        "s/a/b/",
        "s/a/b/w out.txt",
        "s|a|b|g",
        "1,2p",
        "$!d",
        "/a/d",
        "w out.txt",
        "1e touch new.txt",
    ),
    *("s/[/]/x/", "s/[]/]/;/w out.txt/p", "s/a/b/e", "s/[^/]/x/g", "y/a/b/", "r .env", "R .env"),
    *("/a/,/b/p", "s,a,b,;s#c#d#", "s/a\\/b/c/", "N;P;D", "a x", "1!G;h;$!d", "s/a/b/;w out.txt"),
    *("{print $1}", '{print > "out.txt"}', "NR>1", "$1 > 5 {print}", '{ system("touch new.txt") }'),
    *("/a/ {print}", '/"/ {print > "out.txt"}', '{ print | "sh" }', 'BEGIN { getline < ".env" }'),
    *("{ n[$1]++ } END { for (k in n) print k }", 'BEGIN{ARGV[1]=".env";ARGC=2}{print}', "x/y/z"),
    *('if (1) /"/ ; system("touch new.txt") ; /"/', '{ print (1 > "out.txt") }', "/[/]/ {print}"),
    *('{ print ENVIRON["HOME"] }', '("cat .env") | getline', '1; @include "x"', "{a = b / c}"),
    *(
        ".",
        ".a | keys",
        "env",
        "$ENV.HOME",
        "input",
        "inputs",
        'import "x" as $x; .',
        '@text "\\(env)"',
    ),
)
_CONDITION_WORDS = (
    *("-f data.txt", "-d src", "-e .env", "! -f x", "-z ''", "a = b", "1 -eq 1", "$? -eq 0"),
    *("-v 'a[$(touch new.txt)]'", "'a[$(touch new.txt)]' -eq 1", "a -nt b", '"$HOME" != /', "*"),
    *("-f data.txt && -d src", "a =~ b", "a < out.txt", "a > out.txt", '-n "$x"', "x -a -f y", "a"),
    *("-R 'a[$(touch new.txt)]'", "( -f a )", "src/* = x", "-o noglob", '"$PATH" = x'),
)
_VALUES_OF_LOOPS = (
    *(
        "src/*.py",
        "a b",
        "data.txt notes.md",
        "*",
        "links/*",
        ".env x",
        "{1..3}",
        "{a,.env}",
        "odd/*",
    ),
    *("$(ls)", "-rf", "'a b'", "$HOME", "/etc/passwd", "certs/*", "out.txt", "~", ".*"),
)
_BODIES = (
    *(
        "cat $f",
        'cat "$f"',
        "wc -l ${f}",
        "cat x/$f",
        "echo $f",
        "touch $f",
        'cat < "$f"',
        "cd $f",
        "$f",
    ),
    *(
        'head -1 "src/$f"',
        "[ -f $f ] && cat $f",
        "rm $f",
        "grep -c a $f",
        "sort -o out.txt $f",
        "f=.env",
    ),
    *(
        'ls "$f"',
        "cat $f.env",
        "if [ -f $f ]; then cat $f; fi",
        "(cd src; cat $f)",
        "cat ${f%x}",
        "ls $f*",
    ),
)
_NAMES_OF_VARIABLES = ("f", "f", "f", "f", "PATH", "IFS", "HOME", "http_proxy", "x", "BASH_ENV")
_GITS = (
    *("status", "log", "diff", "show", "grep", "stash list", "config --get", "blame", "ls-files"),
    *(
        "branch",
        "tag",
        "remote",
        "rev-parse",
        "cat-file",
        "reflog",
        "describe",
        "rev-list",
        "shortlog",
    ),
    *("stash show", "config", "for-each-ref", "show-ref", "check-ignore", "worktree list", "stash"),
)
_GIT_ARGUMENTS = (
    *(
        "HEAD",
        "-n1",
        "--oneline",
        "-p",
        "--stat",
        "data.txt",
        "--",
        "src",
        "new",
        "-d",
        "user.name",
    ),
    *("core.pager", "core.pager x", "--output=out.txt", "-Oless", "--ext-diff", "--textconv", "-s"),
    *("HEAD:data.txt", "HEAD:.env", ":.env", "-e x", "-f .env", "x", "--no-index .env x", "-L 1,2"),
    *(
        "--all",
        "-t",
        "--format=%h",
        "--list",
        "--cached",
        "-l",
        "-v",
        "-c",
        "--global",
        "../x",
        "-uno",
    ),
)
_ABOUT = (
    *("node --version", "python3 --version", "jq --version", "git --version", "make --version"),
    *(
        "bash --version",
        "pip --version",
        "uptime",
        "free -h",
        "hostname",
        "uname -a",
        "locale",
        "lscpu",
    ),
    *("grep --help", "tar --help", "find --help", "gcc --version", "curl --version", "hostname x"),
)


def compose_form(seed: int) -> str:
    """Return a script in a form the parser descends into: loops, conditions, small languages."""
    random = Random(seed)
    script = _form(random)
    if random.random() < 0.4:
        script += random.choice((" && ", "; ", " | ", "\n", " || ")) + _form(random)
    match random.randrange(12):
        case 0:
            return f"({script})"
        case 1:
            return f"{{ {script}; }}"
        case 2:
            return f"if {script}; then {_form(random)}; else {_form(random)}; fi"
        case 3:
            return f"! {script}"
        case 4:
            return f"cd {random.choice(_STARTS)} && {script}"
        case 5:
            return f"(cd src && {script}) | {_form(random)}"
        case _:
            return script


def _form(random: Random) -> str:
    choose = random.choice
    match random.randrange(13):
        case 0:
            command = choose(("sed", "sed -n", "sed -E", "awk", "awk -F,", "jq", "jq -r", "sed -e"))
            return f"{command} '{choose(_SCRIPT_TEXTS)}' {choose(_OPERANDS)}"
        case 1:
            opening = choose(("[", "[[", "test"))
            closing = {"[": " ]", "[[": " ]]"}.get(opening, "")
            return f"{opening} {choose(_CONDITION_WORDS)}{closing}"
        case 2:
            name = choose(_NAMES_OF_VARIABLES)
            body = choose(_BODIES).replace("f", name, 1) if name != "f" else choose(_BODIES)
            return f"for {name} in {choose(_VALUES_OF_LOOPS)}; do {body}; done"
        case 3:
            inner, end = choose(_INNER), choose((" \\;", " +", " ';'", ""))
            test = choose(("", "-type f", "-name '*.txt'", "-name '*.py'", "-maxdepth 1"))
            return f"find {choose(_STARTS)} {test} {choose(('-exec', '-exec', '-ok'))} {inner}{end}"
        case 4 | 5:
            return f"{_names(random)} | {_xargs(random)}"
        case 6:
            words = [choose(_GIT_ARGUMENTS) for _ in range(choose((0, 0, 1, 1, 2)))]
            return " ".join(["git", choose(_GITS), *words])
        case 7:
            return (
                f"{choose(('cat', 'wc -l', 'sort', 'head -2', 'sh', 'tr a b'))} < {choose(_PATHS)}"
            )
        case 8:
            return choose(_ABOUT)
        case 9:
            brace = choose(
                ("{data,notes}.txt", "src/{main,util}.py", ".{env,x}", "{.env,a}", "a{1..3}")
            )
            return f"{choose(('cat', 'ls', 'wc', 'echo', 'touch'))} {brace}"
        case 10:
            value = choose(
                ('"$HOME"', "$?", "$HOME/.ssh/id_rsa", '"$PWD"', "$x", "${HOME}", '"a$"')
            )
            return f"{choose(('echo', 'cat', 'ls', 'printf %s', 'test -n'))} {value}"
        case 11:
            return choose(
                ("set -e", "set -euo pipefail", "exit 1", "set -x", "set", "exit $?", "true")
            )
        case _:
            return _simple(random)


def _names(random: Random) -> str:
    search = random.choice(
        ("find {}", "find {} -name '*.py'", "find {} -print0", "find {} -type f", "grep -rl a {}")
    ).format(random.choice(_STARTS))
    search = random.choice((search, search, "ls", "cat data.txt", "git ls-files", "echo .env"))
    filters = (" | sort", " | head -2", " | grep -v x", " | cut -c1-3", " 2>&1", " | uniq", "")
    return search + random.choice(filters) if random.random() < 0.3 else search


def _xargs(random: Random) -> str:
    options = random.choice(
        ("", "", "-0 ", "-n1 ", "-I{} ", "-r ", "-a .env ", "-d '\\n' ", "-P2 ")
    )
    inner = random.choice(_INNER)
    return f"xargs {options}{inner if '-I' in options else inner.replace(' {}', '')}"
