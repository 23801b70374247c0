"""Know which files of the current folder programs run by themselves, and what these files run.

`make`, `npx`, `git` and most other programs run what they find there. A hook runs outside the
sandbox only if its command certainly does not, so only two kinds count: programs known not to do
that, and scripts that the command names by path. Of a makefile and its like, the commands are read.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from fnmatch import filter as names_like
from itertools import chain, pairwise
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from agent_cli.policies.shell.foreign_code import commands_in, commands_of_tox
from agent_cli.policies.shell.readings import Reading, all_commands
from agent_cli.policies.shell.starters import SHELLS, base_name, sed_commands
from agent_cli.policies.shell.syntax import descendants, is_misread, source, syntax_tree
from agent_cli.policies.shell.words import literals_in
from agent_cli.system.loading import late_pattern
from agent_cli.system.shapes import is_array, is_object

if TYPE_CHECKING:
    from tree_sitter import Node

FileKind: TypeAlias = Literal["shell", "code", "tests", "windows", "tasks", "git"]
"""What runs a file: a shell, another language's interpreter, tests in one, Windows, `make`, git."""

_MAKES: Final = "make gmake bmake remake colormake"
_RUN_SCRIPTS: Final = (
    "npm pnpm yarn bun bunx deno npx corepack turbo concurrently npm-run-all run-s run-p"
)
_RUN_TASKS: Final = frozenset(f"{_MAKES} {_RUN_SCRIPTS} just task go-task".split())
_PACKAGE: Final = "package.json deno.json deno.jsonc"
_RUN: Final = cast(
    "Sequence[tuple[str, str, FileKind]]",
    (
        (_MAKES, "*akefile *.mk", "tasks"),
        ("just", "*ustfile *.just", "tasks"),
        ("task go-task", "*askfile.y*ml", "tasks"),
        (_RUN_SCRIPTS, _PACKAGE, "tasks"),
        ("tox", "tox.ini tox.toml setup.cfg pyproject.toml", "tasks"),
        ("python pypy ipython", "*.py", "code"),
        ("pytest py.test unittest tox nox", "*.py", "tests"),
        ("node nodejs tsx ts-node", "*.[cm]js *.[jt]s", "code"),
        ("jest vitest mocha ava", "*.[cm]js *.[jt]s *.[jt]sx", "tests"),
        ("go", "*.go", "code"),
        ("cargo rustc", "*.rs", "code"),
        ("cc gcc clang c++ g++ clang++ tcc", "*.c *.cc *.cpp *.cxx", "code"),
        ("ruby rake rspec bundle", "*.rb Rakefile Gemfile", "code"),
        ("git", "pre-* post-* commit-msg prepare-commit-msg", "shell"),
        ("git", "config .gitconfig", "git"),
    ),
)
RUN_BY_NAME: Final[Mapping[str, Mapping[str, FileKind]]] = MappingProxyType(
    {
        program: {
            name: kind
            for programs, names, kind in _RUN
            if program in programs.split()
            for name in names.split()
        }
        for program in chain.from_iterable(programs.split() for programs, _, _ in _RUN)
    }
)
"""The files, by patterns of their names, that programs run by themselves where these stand."""
IS_CODE: Final = frozenset[FileKind]({"code", "tests"})
RUN_OPTION: Final = "--run"
"""With it, node runs a script of the package.json, as npm does."""

# None of these reads a script, a plugin or a configuration in the current folder.
_KEEP_TO_THEMSELVES = frozenset(
    {
        *("cat", "echo", "printf", "jq", "grep", "egrep", "fgrep", "tee", "tr", "cut", "head"),
        *("tail", "sort", "uniq", "wc", "date", "sleep", "test", "[", "[[", "true", "false", ":"),
        *("exit", "read", "mkdir", "touch", "cp", "mv", "ln", "rm", "basename", "dirname"),
        *("realpath", "readlink", "stat", "ls", "pwd", "cd", "logger", "uname", "hostname"),
        *("whoami", "id", "mktemp", "chmod", "base64", "sha256sum", "md5sum", "shasum", "return"),
        *("shift", "break", "continue", "local", "tput", "curl", "seq", "expr", "cmp", "diff"),
        *("notify-send", "terminal-notifier", "osascript", "say", "afplay", "paplay", "aplay"),
        *("canberra-gtk-play", "pw-play", "wall", "xdg-open"),
    }
)
# Options with which one of them does.
_READS_MORE = {"curl": late_pattern(r"-\w*K.*|--conf.*"), "sort": late_pattern(r"--comp.*")}
_INTERPRETERS = SHELLS | {
    *("python", "python3", "node", "ruby", "perl", "php", "lua", "osascript", "source", "."),
}
# `-I` and the like change nothing about the script that follows.
_HARMLESS_OPTIONS = frozenset({"-u", "-I", "-B", "-E", "-s", "-S", "-O", "-e", "-eu", "-x"})
_OPTIONS_OF_SHELLS_ONLY = frozenset({"-e", "-eu", "-x"})
# A shell sets these without any effect on the programs that it finds or on what they load.
_PLAIN_VARIABLE = late_pattern(r"(?!LD_|DYLD_)[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_LOADING = late_pattern(
    r"PATH|\w*(?:PATH|LIB|OPT|OPTS|OPTIONS|HOME|ENV|PRELOAD|STARTUP|CONFIG|RC)|IFS|SHELL|EDITOR"
    r"|PAGER|BROWSER|GIT_\w+|BASH\w*|PROMPT_COMMAND|PS\d",
    re.ASCII | re.IGNORECASE,
)
_OF_THE_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/opt/", "/nix/", "/snap/", "/home/linuxbrew/")
_TOOL_FOLDERS = frozenset({"bin", "shims", "sbin"})
_SETS_OF_MAKE: Final = late_pattern(
    r"(?:(?:export|override|private)\s+)*([A-Za-z_]\w*)\s*(:{0,3}|[?!+])=\s*(.*)", re.ASCII
)
_DEFINITION: Final = late_pattern(r"(?ms)^define\s+(\w+)[^\n]*\n(.*?)\nendef\b", re.ASCII)
_RECIPE_PREFIX: Final = late_pattern(r"(?m)^\.RECIPEPREFIX\s*:{0,3}=\s*(\S)")
_RUNS_SHELL: Final = late_pattern(r"\$[({]shell\s.*")
_RULE: Final = late_pattern(r"([^\s#:=][^:=#]*)::?(?!=)([^;]*)(?:;(.*))?")
# Of `just`: an argument of a recipe may have a value.
_RULE_WITH_VALUES: Final = late_pattern(r"@?([A-Za-z_][\w-]*)(?:\s[^:#]*)?:(?!=)([^;]*)(?:;(.*))?")
_INCLUDES: Final = late_pattern(r"[-s]?(?:include|import)\b\??\s+[\"']?([\w./ -]+)")
_MAY_RUN_ALL: Final = late_pattern(r"%|MAKE|DEFAULT_|\bmake\s")
_VALUE_OF_MAKE: Final = late_pattern(r"(?a)\$[({](?:call\s+)?([A-Za-z_]\w*)(?:,[^(){}]*)?[)}]")
_VALUE_IN_BRACES: Final = late_pattern(r"(?a)\{\{\s*\.?([A-Za-z_]\w*)\s*\}\}")
_WORD: Final = late_pattern(r"[\w:.*-]+")
_RUNNER: Final = late_pattern(r"(?:npm|pnpm|yarn|bun|node|deno):")
_LIFECYCLE: Final = ("preinstall", "install", "postinstall", "prepare", "dependencies")
_RUN_OTHERS, _OTHERS = {"t", "tst", "it", "cit", "restart"}, ("test", "stop", "start")
_IS_TASKFILE: Final = late_pattern(r"(?m)^tasks:\s*(?:#.*)?$(?=(?s:.*)^ +[\w\"'-])")
_NAME_OF_TASK: Final = late_pattern(r"\s*[\"']?([\w:.*-]+)[\"']?:(?:\s+|$)")
_BEFORE_COMMAND: Final = late_pattern(
    r"-\s+|(?:cmds?|sh|deps|task|defer|status|preconditions|if):(?:\s+|$)|[|>][-+\d]*$"
)
_KEY_OF_TASK: Final = late_pattern(r"([A-Za-z_]\w*):(?:\s+|$)", re.ASCII)
_FOLDERS_OF_TASK: Final = ("ROOT_DIR=.", "TASKFILE_DIR=.", "USER_WORKING_DIR=.")
_SECTION: Final = late_pattern(r"(?m)^\s*\[{1,2}([\w.:-]+)[^][\n]*\]{1,2}")
_RUN_BY_GIT: Final = late_pattern(
    r"pager|editor|askpass|sshcommand|fsmonitor|external|textconv|command|cmd|clean|smudge|process"
    r"|helper|program|difffilter|log|show|diff",
    re.IGNORECASE,
)


def runs_own_files_only(command: str | Sequence[str]) -> bool:
    """Return whether it is certain that *command* runs nothing of the current folder.

    Files that it names by a path are judged elsewhere, by where they lie.

    Args:
        command: A script for a shell, or the words of one command.
    """
    if not isinstance(command, str):
        return _is_own(tuple(command))
    tree = syntax_tree(command)
    nodes = list(descendants(tree))
    if tree.has_error or any(map(is_misread, nodes)):
        return False
    if not all(_is_plain(node) for node in nodes if node.type == "variable_assignment"):
        return False
    return all(map(_is_own, all_commands(command)))


def _is_plain(assignment: "Node") -> bool:
    name = source(assignment).partition("=")[0].removesuffix("+")
    return bool(_PLAIN_VARIABLE.fullmatch(name)) and not _LOADING.fullmatch(name)


def _is_own(words: Reading) -> bool:
    if not words or words[0] is None:
        return False
    head, name = words[0], base_name(words[0])
    if name in _INTERPRETERS:
        return _is_script(words[1:], of_shell=name in SHELLS)
    if name in _KEEP_TO_THEMSELVES:
        reads_more = _READS_MORE.get(name)
        return not (reads_more and any(map(reads_more.match, filter(None, words))))
    return _is_path(head)


def _is_script(arguments: Reading, *, of_shell: bool) -> bool:
    """Return whether *arguments* begin with the path of a script that does not move with us."""
    for word in arguments:
        if word in _HARMLESS_OPTIONS and (of_shell or word not in _OPTIONS_OF_SHELLS_ONLY):
            continue
        return word is not None and _is_path(word)
    return False


def _is_path(word: str) -> bool:
    """Return whether *word* is the path of a script of the user, not of an installed program."""
    if not word.startswith(("/", "~/")) or word.startswith(_OF_THE_SYSTEM):
        return False
    return PurePath(word).parent.name not in _TOOL_FOLDERS


def goals_of(seen: Sequence[Reading]) -> Mapping[FileKind, Set[str | None]]:
    """Return what *seen* may name for `make`, `npm`, git and the like to run; None: any.

    And the values that they are given: `make B=x`, also for the folder of `make -C`.
    """
    calls = [(base_name(words[0] or ""), words[1:]) for words in seen if words]
    tasks = chain.from_iterable(
        words for name, words in calls if name in _RUN_TASKS or RUN_OPTION in words
    )
    of_git = chain.from_iterable(words for name, words in calls if name == "git")
    entered = chain.from_iterable(
        (f"CURDIR={behind or '/'}" for option, behind in pairwise(words) if option == "-C")
        for name, words in calls
        if name in _RUN_TASKS
    )
    return {
        "tasks": {*(each for each in tasks if each is None or each[:1] != "-"), *entered},
        "git": {*of_git},
    }


def scripts_of(
    text: str, kind: FileKind, goals: Mapping[FileKind, Set[str | None]]
) -> Iterator[str]:
    """Yield the scripts for bash that run where *goals* of a file of *kind* with *text* are run."""
    match kind:
        case "tasks":
            return _tasks_in(text, goals[kind])
        case "git":
            return _of_git(text, goals[kind])
        case "code" | "tests":
            return chain(commands_in(text, is_test=kind == "tests"), sed_commands(text))
        case "shell" | "windows":
            return iter((text,))


def _tasks_in(text: str, goals: Set[str | None]) -> Iterator[str]:
    """Yield what runs for *goals* of *text*, a makefile or its like."""
    sets = {each for each in goals if each and "=" in each}
    given = {each[1]: each[3] for each in map(_SETS_OF_MAKE.fullmatch, sorted(sets)) if each}
    goals = goals - sets
    if text.lstrip().startswith("{"):
        yield from _of_package(text, goals)
    elif _SECTION.search(text):
        yield commands_of_tox(text)
    elif _IS_TASKFILE.search(text):
        yield _of_taskfile(text, goals, given)
    else:
        yield _of_makefile(text, goals, given)


def _of_package(text: str, goals: Set[str | None]) -> Iterator[str]:
    try:
        read: dict[str, Any] = json.loads(text)
        tasks: dict[str, Any] = {**(read.get("scripts") or {}), **(read.get("tasks") or {})}
    except (ValueError, TypeError, RecursionError):
        yield from literals_in(text)
        return
    scripts = {name: _body(each) for name, each in tasks.items()}
    left = [*_LIFECYCLE, *filter(None, goals), *(_OTHERS if goals & _RUN_OTHERS else ())]
    chosen = set[str]()
    for goal in scripts if None in goals else left:  # those that are added, too
        name = _RUNNER.sub("", goal)
        run = {name, f"pre{name}", f"post{name}", *names_like(scripts, name)}
        for each in (run & scripts.keys()) - chosen:
            chosen.add(each)
            yield scripts[each]
            left += _WORD.findall(scripts[each])


def _body(task: object) -> str:
    """Return the script of *task*; deno takes an object with what runs before it, too."""
    if not is_object(task):
        return task if isinstance(task, str) else ""
    needed, command = task.get("dependencies"), task.get("command")
    needs = [f"deno task {each}" for each in needed] if is_array(needed) else []
    return "\n".join([*needs, command if isinstance(command, str) else ""])


def _of_makefile(text: str, goals: Set[str | None], given: Mapping[str, str]) -> str:
    """Return what `make` or `just` runs for *goals*, for all of them where that is not known.

    A value that is *given* on the command line counts instead of the text's own.
    """
    values, runs, targets = {"RM": "rm -f", "CURDIR": "."}, list[str](), list[str]()
    recipes, needs = dict[str, list[str]](), dict[str, list[str]]()
    text = _DEFINITION.sub(lambda found: f"{found[1]}={found[2]}".replace("\n", "; "), text)
    begins = ("\t", " ", *(found[1] for found in _RECIPE_PREFIX.finditer(text)))
    for line in text.replace("\\\n", " ").split("\n"):
        if line.startswith(begins):
            for each in targets:
                recipes[each].append(line.removeprefix(begins[-1]).lstrip(" \t@+-"))
            continue
        sets = _SETS_OF_MAKE.fullmatch(line)
        rule = _RULE.match(line) or (None if sets else _RULE_WITH_VALUES.match(line))
        if found := _SETS_OF_MAKE.fullmatch(rule[2].strip()) if rule else sets:
            name, sign, value = found[1], found[2], found[3].strip()
            before = f"{values.get(name, '')} " if sign == "+" else ""
            values[name] = before + (f"$({value})" if sign == "!" else value)
        else:
            runs += _RUNS_SHELL.findall(line)
        if rule:
            targets = rule[1].split()
            for each in targets:
                recipes.setdefault(each, []).append((rule[3] or "").lstrip(" \t@+-"))
                needs.setdefault(each, []).extend(rule[2].split())
        elif found := _INCLUDES.match(line):
            runs += [f"make -f {' -f '.join(found[1].split())}"]
    left = [*filter(None, goals)] or [each for each in recipes if each[0] != "."][:1]
    for each in left:  # those that are needed, too
        left += [need for need in needs.get(each, ()) if need not in left]
    chosen = left if goals <= recipes.keys() and not _MAY_RUN_ALL.search(text) else recipes
    values |= given
    set_first = (f'{name}="{value}"' for name, value in values.items() if name in text)
    lines = chain(set_first, dict.fromkeys(runs), *(recipes.get(each, ()) for each in chosen))
    script = _VALUE_OF_MAKE.sub(r"${\1}", "\n".join(lines)).replace("${MAKE}", "make")
    script = _VALUE_IN_BRACES.sub(r"${\1}", script)
    return re.sub(r"\$\(shell\s+", "$(", script).replace("$$", "$")


def _of_taskfile(text: str, goals: Set[str | None], given: Mapping[str, str]) -> str:
    """Return what `task` runs for *goals*: the lines below their names, of YAML.

    Another goal may be an alias, which such lines name. *given* are values of the command line.
    """
    first, tasks, lines = list[str](), dict[str, list[str]](), list[str]()
    depth_of_names = 0
    for line in filter(str.strip, text.split("\n")):
        depth = len(line) - len(line.lstrip(" "))
        if not depth:
            lines = first
            depth_of_names = -1 if line.startswith("tasks:") else 0
            continue
        depth_of_names = depth if depth_of_names < 0 else depth_of_names
        if depth == depth_of_names and (found := _NAME_OF_TASK.match(line)):
            lines, line = tasks.setdefault(found[1], []), line[found.end() :]
        lines.append(_of_yaml(line.strip()))
    left = [each for each in tasks if not goals.isdisjoint({None, each})] or [
        name  # of an alias, or a pattern
        for name, each in tasks.items()
        if not goals.isdisjoint(_WORD.findall(" ".join(each)))
        or ("*" in name and names_like(filter(None, goals), name))
    ]
    left = left or ["default"]
    first += (f'{name}="{value}"' for name, value in given.items())
    for each in left:  # those that are needed, too
        words = _WORD.findall(" ".join(tasks.get(each, ())))
        left += dict.fromkeys(word for word in words if word in tasks and word not in left)
    chosen = chain.from_iterable(tasks.get(each, ()) for each in left)
    return _VALUE_IN_BRACES.sub(r"${\1}", "\n".join((*_FOLDERS_OF_TASK, *first, *chosen)))


def _of_yaml(line: str) -> str:
    """Return what bash would do for *line* of a Taskfile: run it, change the folder, set a name."""
    while found := _BEFORE_COMMAND.match(line):
        line = line[found.end() :]
    if found := _KEY_OF_TASK.match(line):
        value = line[found.end() :].strip("\"'")
        return f"cd {value}" if found[1] == "dir" else f'{found[1]}="{value}"'
    if line[:1] in ("[", "{") and line[:2] != "{{":
        return "\n".join(literals_in(line)) or re.sub(r"[][{}]|\bcmd:", "\n", line)
    is_quoted = len(line) > 1 and line[0] == line[-1] and line[0] in "\"'"
    return line[1:-1] if is_quoted else line


def _of_git(text: str, words: Set[str | None]) -> Iterator[str]:
    """Yield the scripts that git runs by *text*, its settings: aliases that are among *words*."""
    section = ""
    for line in text.replace("\\\n", " ").split("\n"):
        if found := _SECTION.match(line):
            section, line = found[1].casefold(), line[found.end() :]
        key, _, value = line.partition("=")
        name, value = key.strip(), value.strip().replace('\\"', "\0").replace('"', "")
        value = value.replace("\0", '"')
        if section == "alias" and not {None, name}.isdisjoint(words):
            yield value[1:] if value.startswith("!") else f"git {value}"
        elif section != "alias" and _RUN_BY_GIT.fullmatch(name):
            yield value.removeprefix("!")
