"""Composes commands from pieces that bash and a parser may read differently."""

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
    """Return *word* in one of the ways bash reads as the same word, or nearly so."""
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
    """Return a program that is known to only read, with options that are known to as well.

    Values stand behind them, are joined to them, or belong to another: what the table says of an
    option must be what the program does with it.
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
    """Return *option*, perhaps with others in one word and with a value."""
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
