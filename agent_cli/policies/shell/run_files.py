"""Know which files of the current folder programs run by themselves, and what these files run.

`make`, `npx`, `git` and most other programs run what they find there. Of a makefile and its like,
the commands are read.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from fnmatch import filter as names_like
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

from agent_cli.policies.shell.foreign_code import commands_in, commands_of_tox
from agent_cli.policies.shell.git_losses import SECTION, commands_of_git
from agent_cli.policies.shell.readings import Reading
from agent_cli.policies.shell.starters import base_name, sed_commands
from agent_cli.policies.shell.syntax import descendants, source, syntax_tree
from agent_cli.policies.shell.words import literals_in
from agent_cli.system.loading import late_pattern
from agent_cli.system.shapes import is_array, is_object

FileKind: TypeAlias = Literal["shell", "code", "tests", "windows", "tasks", "texts", "steps", "git"]
"""What runs a file: a shell, another language's interpreter, tests in one, Windows, `make`, git.

Or what runs each text in quotes in it, or each line of YAML.
"""

_MAKES: Final = "make gmake bmake remake colormake"
_RUN_SCRIPTS: Final = (
    "npm pnpm yarn bun bunx deno npx corepack turbo concurrently npm-run-all run-s run-p"
)
_RUN_TASKS: Final = frozenset(f"{_MAKES} {_RUN_SCRIPTS} just task go-task".split())
_PACKAGE: Final = "package.json deno.json deno.jsonc"
_OF_PYTHON: Final = "poe uv hatch pdm poetry rye pixi pipx pipenv"
_RUN: Final = cast(
    "Sequence[tuple[str, str, FileKind]]",
    (
        (_MAKES, "*akefile *.mk", "tasks"),
        ("just", "*ustfile *.just", "tasks"),
        ("task go-task", "*askfile.y*ml", "tasks"),
        (_RUN_SCRIPTS, _PACKAGE, "tasks"),
        ("tox", "tox.ini tox.toml setup.cfg pyproject.toml", "tasks"),
        (f"{_OF_PYTHON} mise cargo", "*.toml Pipfile", "texts"),
        ("lint-staged composer mix", ".lintstagedrc* lint-staged.* *age.json mix.exs", "texts"),
        ("composer", "composer.json", "texts"),
        ("pre-commit prek", ".pre-commit-config.y*ml", "steps"),
        ("lefthook", "*lefthook*.y*ml", "steps"),
        ("act ansible-playbook", "*.yml *.yaml", "steps"),
        ("foreman honcho overmind", "Procfile*", "steps"),
        (f"python pypy ipython {_OF_PYTHON}", "*.py", "code"),
        ("invoke inv fab doit", "tasks.py fabfile.py dodo.py", "code"),
        ("scons gulp grunt", "SConstruct SConscript *ulpfile.* *untfile.*", "code"),
        ("gradle gradlew", "*.gradle *.kts", "code"),
        ("java javac", "*.java", "code"),
        ("zig mix", "*.zig *.exs", "code"),
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

_ENTERS: Final = late_pattern(r"(?:-[Cd]|--(?:working-)?directory=?)(.*)")
_PREFERS_ENVIRONMENT: Final = late_pattern(r"(?:MAKEFLAGS=[\"']?)?(?:-\w*e\w*|--env\S*)[\"']?")
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
_IS_TASKFILE: Final = late_pattern(r"(?m)^(?:tasks|includes):\s*(?:#.*)?$(?=(?s:.*)^ +[\w\"'-])")
_NAME_OF_TASK: Final = late_pattern(r"\s*[\"']?([\w:.*-]+)[\"']?:(?:\s+|$)")
_BEFORE_COMMAND: Final = late_pattern(
    r"-\s+|(?:cmds?|sh|deps|task|defer|status|preconditions|if):(?:\s+|$)|[|>][-+\d]*$"
)
# A text of several lines that YAML joins, and what stands before a command in a line.
_FOLDED: Final = late_pattern(
    r"(?m)^( *)((?:- +)*(?:[\w-]+: +)?)>[-+]? *\n((?:\1 +\S.*(?:\n|\Z))+)"
)
_STEP: Final = late_pattern(r"(?m)^[ ]*(?:- +)*(?:[\w.-]+:(?: +|$))?(?:[|>][-+]?$)?")
_INCLUDED: Final = late_pattern(r'\w+="(.+\.ya?ml)"')
_KEY_OF_TASK: Final = late_pattern(r"([A-Za-z_]\w*):(?:\s+|$)", re.ASCII)
_FOLDERS_OF_TASK: Final = ("ROOT_DIR=.", "TASKFILE_DIR=.", "USER_WORKING_DIR=.")


def goals_of(seen: Sequence[Reading], script: str) -> Mapping[FileKind, Set[str | None]]:
    """Return what *seen*, of *script*, may name for `make`, `npm`, git to run; None: any.

    And the values that they are given: `make B=x`, also for the folder of `make -C`; as `B?=x`
    those of the environment, which the script assigns or which are words of another command.
    """
    calls = [(base_name(words[0] or ""), words[1:]) for words in seen if words]
    tasks = chain.from_iterable(
        words for name, words in calls if name in _RUN_TASKS or RUN_OPTION in words
    )
    of_git = chain.from_iterable(words for name, words in calls if name == "git")
    of_tasks = [words for name, words in calls if name in _RUN_TASKS]
    entered = (
        f"CURDIR={found[1] or behind or '/'}"
        for words in of_tasks
        for option, behind in pairwise((*words, None))
        if (found := _ENTERS.fullmatch(option or ""))
    )
    others = chain.from_iterable(words for name, words in calls if name not in _RUN_TASKS)
    sets = [each for each in others if each and "=" in each] if of_tasks else []
    nodes = descendants(syntax_tree(script)) if of_tasks else ()
    sets += [source(node) for node in nodes if node.type == "variable_assignment"]
    options = filter(None, chain(sets, *of_tasks))
    sign = "=" if any(map(_PREFERS_ENVIRONMENT.fullmatch, options)) else "?="
    named = (each for each in tasks if each is None or each[:1] != "-")
    return {
        "tasks": {*named, *entered, *(sign.join(each.split("=", 1)) for each in sets)},
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
            return commands_of_git(text, goals[kind])
        case "texts":
            return (each for each in literals_in(text) if " " in each)
        case "steps":
            return iter((_STEP.sub("", _unfolded(text)),))
        case "code" | "tests":
            return chain(commands_in(text, is_test=kind == "tests"), sed_commands(text))
        case "shell" | "windows":
            return iter((text,))


def _tasks_in(text: str, goals: Set[str | None]) -> Iterator[str]:
    """Yield what runs for *goals* of *text*, a makefile or its like."""
    sets = {each for each in goals if each and "=" in each}
    found = [each for each in map(_SETS_OF_MAKE.fullmatch, sorted(sets)) if each]
    given = {each[1]: each[3] for each in found if each[2] != "?"}
    named = Counter(each[1] for each in found)
    defaults = {each[1]: each[3] if named[each[1]] == 1 else "$_" for each in found}
    goals = goals - sets
    if folder := given.get("CURDIR"):
        yield f"cd {folder}"
    if text.lstrip().startswith("{"):
        yield from _of_package(text, goals)
    elif SECTION.search(text):
        yield commands_of_tox(text)
    elif _IS_TASKFILE.search(text):
        yield _of_taskfile(_unfolded(text), goals, given)
    else:
        yield _of_makefile(text, goals, given, defaults)


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


def _unfolded(text: str) -> str:
    """Return *text*, of YAML, with each folded scalar in the line where it begins."""
    return _FOLDED.sub(lambda each: f"{each[1]}{each[2]}{' '.join(each[3].split())}\n", text)


def _of_makefile(
    text: str, goals: Set[str | None], given: Mapping[str, str], defaults: Mapping[str, str]
) -> str:
    """Return what `make` or `just` runs for *goals*, for all of them where that is not known.

    A value that is *given* on the command line counts instead of the text's own, and one of
    *defaults* instead of what the text sets by `?=`.
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
            value = defaults.get(name, value) if sign == "?" else value
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
    goals = {*goals, *(each.rpartition(":")[2] for each in goals if each)}  # of an included file
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
    first += [f"task -t {found[1]} $_" for each in first if (found := _INCLUDED.fullmatch(each))]
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
