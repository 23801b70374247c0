"""The options, commands and slash commands of other agents, each with its name here.

One table for the parser of the command line, the prompt and docs/coming-from.md. A name stands for
words of ours that do the same; without such words a sentence says what to use. Our own names are
not listed, even where another agent means something else by them. No module imports this one before
the user has typed an unknown name.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from agent_cli.contracts.claude_tools import OF_SERVERS, our_tool_name
from agent_cli.contracts.errors import UsageError

_CLAUDE, _CODEX, _PI = "Claude Code", "Codex", "pi"
_CLAUDE_CODEX, _CLAUDE_PI = "Claude Code and Codex", "Claude Code and pi"
_CODEX_PI, _ALL = "Codex and pi", "Claude Code, Codex and pi"
_GEMINI, _KIMI, _VIBE, _AIDER = "Gemini CLI", "kimi-cli", "mistral-vibe", "aider"
_MEMORY: Final = "edit AGENTS.md or CLAUDE.md; /context lists those that are read"
_REPORT: Final = "nothing is sent to us; /doctor shows what a report needs"
_UPGRADE: Final = "upgrade it with what installed it: docs/install.md"
_START_THERE: Final = "start it there: cd DIR && agent-cli; --add-dir DIR adds one"


class Foreign(NamedTuple):
    """A name of other agents.

    Attributes:
        agents: The agents that have it.
        ours: The words that do the same here; "" if nothing does.
        instead: What to use if nothing does the same: a sentence without a full stop.
        takes_rules: Whether its values are permission rules, several in one text or word by word.
    """

    agents: str
    ours: str = ""
    instead: str = ""
    takes_rules: bool = False


FOREIGN_OPTIONS: Final[Mapping[str, Foreign]] = {
    "--dangerously-skip-permissions": Foreign(_CLAUDE, "--permission-mode yolo"),
    "--allow-dangerously-skip-permissions": Foreign(
        _CLAUDE, instead="--permission-mode yolo is always there and needs no leave"
    ),
    "--allowedTools": Foreign(_CLAUDE, "--allow", takes_rules=True),
    "--allowed-tools": Foreign(_CLAUDE, "--allow", takes_rules=True),
    "--disallowedTools": Foreign(_CLAUDE, "--deny", takes_rules=True),
    "--disallowed-tools": Foreign(_CLAUDE, "--deny", takes_rules=True),
    "--max-turns": Foreign(_CLAUDE, "--max-rounds"),
    "--max-budget-usd": Foreign(_CLAUDE, "--max-cost"),
    "--no-session-persistence": Foreign(_CLAUDE, "--no-session"),
    "--include-partial-messages": Foreign(
        _CLAUDE, instead="leave it out: --output-format stream-json always has each new piece"
    ),
    "--input-format": Foreign(
        _CLAUDE, instead="stdin is text; a program that sends messages uses agent-cli acp"
    ),
    "--replay-user-messages": Foreign(_CLAUDE, instead="programs use agent-cli acp: docs/acp.md"),
    "--session-id": Foreign(
        _CLAUDE_PI, instead="ids are given by the program: --resume ID goes on with one"
    ),
    "--fork-session": Foreign(_CLAUDE, instead="use --fork ID instead of --resume ID"),
    "--fallback-model": Foreign(_CLAUDE, "--model-fallback"),
    "--agent": Foreign(_CLAUDE, instead="ask for the agent in the prompt"),
    "--agents": Foreign(_CLAUDE, instead="write each agent as a file: docs/agents.md"),
    "--strict-mcp-config": Foreign(
        _CLAUDE, instead="--no-mcp starts no server; agent-cli mcp disable NAME turns one off"
    ),
    "--tools": Foreign(_CLAUDE_PI, instead="--deny TOOL takes a tool away, and is repeatable"),
    "--setting-sources": Foreign(
        _CLAUDE, instead="--settings FILE adds a file; config show --origin lists all sources"
    ),
    "--plugin-dir": Foreign(_CLAUDE, instead="use agent-cli plugins add PATH"),
    "--system-prompt-file": Foreign(_CLAUDE, instead='use --system-prompt "$(cat FILE)"'),
    "--append-system-prompt-file": Foreign(
        _CLAUDE, instead='use --append-system-prompt "$(cat FILE)"'
    ),
    "--debug": Foreign(_CLAUDE, instead="--verbose shows more; logs: docs/troubleshooting.md"),
    "--bare": Foreign(_CLAUDE, instead="use --no-plugins --no-mcp"),
    "--ide": Foreign(_CLAUDE, instead="editors start agent-cli acp: docs/acp.md"),
    "-w": Foreign(_CLAUDE, "--worktree"),
    "-v": Foreign(_CLAUDE_PI, "--version"),
    "-n": Foreign(_CLAUDE_PI, "--name"),
    "--permission-prompt-tool": Foreign(
        _CLAUDE, instead="a PermissionRequest hook answers for you: docs/hooks.md"
    ),
    "--disable-slash-commands": Foreign(
        _CLAUDE, instead="leave it out: a prompt of -p may be text"
    ),
    "--include-hook-events": Foreign(_CLAUDE, instead="leave it out: --verbose shows hooks"),
    "--betas": Foreign(_CLAUDE, instead="leave it out: what a model needs is sent"),
    "--chrome": Foreign(_CLAUDE, instead="add an MCP server with a browser: docs/mcp.md"),
    "--from-pr": Foreign(_CLAUDE, instead="use agent-cli -r, and type a word to filter"),
    "--remote": Foreign(_CLAUDE, instead="sessions run on this machine: use ssh and tmux"),
    "--teleport": Foreign(_CLAUDE, instead="sessions run on this machine: use agent-cli -r"),
    "--tmux": Foreign(_CLAUDE, instead="use tmux new agent-cli --worktree NAME"),
    "--init": Foreign(_CLAUDE, instead="a SessionStart hook runs at each start: docs/hooks.md"),
    "--init-only": Foreign(_CLAUDE, instead="no set-up is kept here: run its command by itself"),
    "--maintenance": Foreign(_CLAUDE, instead="no set-up is kept here: run its command by itself"),
    "--mcp-debug": Foreign(_CLAUDE, instead="use agent-cli mcp test NAME"),
    "--full-auto": Foreign(_CODEX, "--permission-mode auto-edit"),
    "--yolo": Foreign(_CODEX, "--permission-mode yolo"),
    "--dangerously-bypass-approvals-and-sandbox": Foreign(
        _CODEX,
        instead="use --permission-mode yolo; sandbox.mode in the settings is the sandbox's",
    ),
    "--sandbox": Foreign(
        _CODEX,
        instead="commands run in a sandbox unless the settings say otherwise;"
        " --permission-mode plan only reads",
    ),
    "-s": Foreign(_CODEX, instead="see --sandbox: --permission-mode plan only reads"),
    "--ask-for-approval": Foreign(
        _CODEX, instead="use --permission-mode ask, auto-edit, auto, plan or yolo"
    ),
    "-a": Foreign(_CODEX_PI, instead="use --permission-mode ask, auto-edit, auto, plan or yolo"),
    "-m": Foreign(_CODEX, "--model"),
    "--cd": Foreign(_CODEX, instead=_START_THERE),
    "-C": Foreign(_CODEX, instead=_START_THERE),
    "--image": Foreign(_CODEX, instead="name the picture in the prompt: @pic.png"),
    "-i": Foreign(_CODEX, instead="name the picture in the prompt: @pic.png"),
    "--profile": Foreign(_CODEX, instead="use --settings FILE, one file for each profile"),
    "--output-schema": Foreign(_CODEX, "--json-schema"),
    "--output-last-message": Foreign(_CODEX, instead="use -p PROMPT > FILE: stdout is the answer"),
    "-o": Foreign(_CODEX, instead="use -p PROMPT > FILE: stdout is the answer"),
    "--ephemeral": Foreign(_CODEX, "--no-session"),
    "--skip-git-repo-check": Foreign(_CODEX, instead="leave it out: no repository is needed"),
    "--oss": Foreign(_CODEX, instead='set [provider] wire_api = "chat": docs/clouds.md'),
    "--search": Foreign(_CODEX, "--allow web_search"),
    "--last": Foreign(_CODEX, "--continue"),
    "-V": Foreign(_CODEX, "--version"),
    "--enable": Foreign(_CODEX, instead="no features to switch here: config show lists settings"),
    "--disable": Foreign(_CODEX, instead="no features to switch here: config show lists settings"),
    "--no-alt-screen": Foreign(_CODEX, instead="leave it out: the terminal itself scrolls"),
    "--local-provider": Foreign(_CODEX, instead='set [provider] wire_api = "chat": docs/clouds.md'),
    "--color": Foreign(_CODEX, instead="set NO_COLOR=1; a pipe gets no colours"),
    "--thinking": Foreign(_PI, "--effort"),
    "--mode": Foreign(
        _PI,
        instead="--permission-mode says what is asked about; --output-format stream-json writes"
        " events; agent-cli acp is for programs",
    ),
    "--provider": Foreign(_PI, instead="set [provider] in the settings: docs/clouds.md"),
    "--api-key": Foreign(_PI, instead="set ANTHROPIC_API_KEY; other users see a command line"),
    "--session": Foreign(_PI, "--resume"),
    "--session-dir": Foreign(_PI, instead="XDG_STATE_HOME says where sessions lie"),
    "--models": Foreign(_PI, instead="set [models] in the settings; agent-cli models lists them"),
    "--list-models": Foreign(_PI, instead="use agent-cli models"),
    "--no-tools": Foreign(_PI, "--deny *"),
    "-nt": Foreign(_PI, "--deny *"),
    "--exclude-tools": Foreign(_PI, "--deny", takes_rules=True),
    "--extension": Foreign(_PI, instead="use agent-cli plugins add PATH"),
    "-e": Foreign(_PI, instead="use agent-cli plugins add PATH"),
    "--no-extensions": Foreign(_PI, "--no-plugins"),
    "--skill": Foreign(_PI, instead="put the skill into .agents/skills: docs/skills.md"),
    "--no-context-files": Foreign(_PI, instead="/context lists the instruction files"),
    "--theme": Foreign(_PI, instead="use /theme at the prompt, or the setting ui.theme"),
    "--export": Foreign(_PI, instead="use agent-cli sessions export ID html"),
    "--offline": Foreign(_PI, instead="leave it out: only the model and your servers are asked"),
    "--approve": Foreign(_PI, "--trust"),
    "--prompt": Foreign(f"{_GEMINI}, {_KIMI} and {_VIBE}", "--print"),
    "--message": Foreign(_AIDER, "--print"),
    "--message-file": Foreign(_AIDER, "--prompt-file"),
    "--prompt-interactive": Foreign(_GEMINI, instead='leave it out: agent-cli "PROMPT" begins so'),
    "--approval-mode": Foreign(_GEMINI, "--permission-mode"),
    "-y": Foreign(f"{_GEMINI} and {_KIMI}", "--permission-mode yolo"),
    "--auto-approve": Foreign(f"{_KIMI} and {_VIBE}", "--permission-mode yolo"),
    "--yes-always": Foreign(_AIDER, "--permission-mode yolo"),
    "--max-price": Foreign(_VIBE, "--max-cost"),
    "--workdir": Foreign(_VIBE, instead=_START_THERE),
    "--work-dir": Foreign(_KIMI, instead=_START_THERE),
    "--include-directories": Foreign(_GEMINI, instead="use --add-dir DIR, once for each"),
}

FOREIGN_COMMANDS: Final[Mapping[str, Foreign]] = {
    "exec": Foreign(_CODEX, "-p"),
    "resume": Foreign(_CODEX, "--resume"),
    "fork": Foreign(_CODEX, instead="use agent-cli --fork ID"),
    "review": Foreign(_CODEX, instead="use agent-cli -- /review"),
    "apply": Foreign(_CODEX, instead="changes are made in place; batch leaves changes.patch"),
    "login": Foreign(_CLAUDE_CODEX, instead="set ANTHROPIC_API_KEY; agent-cli doctor checks it"),
    "logout": Foreign(_CLAUDE_CODEX, instead="no login is kept: unset ANTHROPIC_API_KEY"),
    "update": Foreign(_ALL, instead=_UPGRADE),
    "plugin": Foreign(_CLAUDE_CODEX, "plugins"),
    "auth": Foreign(_CLAUDE, instead="set ANTHROPIC_API_KEY; agent-cli doctor checks it"),
    "setup-token": Foreign(_CLAUDE, instead="set ANTHROPIC_API_KEY; agent-cli doctor checks it"),
    "migrate-installer": Foreign(_CLAUDE, instead=_UPGRADE),
    "install": Foreign(
        _CLAUDE_PI, instead="docs/install.md; a plugin: agent-cli plugins add SOURCE"
    ),
    "agents": Foreign(_CLAUDE, instead="/agents lists them; write each as a file: docs/agents.md"),
    "auto-mode": Foreign(_CLAUDE, instead="use --permission-mode auto: docs/permissions.md"),
    "ultrareview": Foreign(_CLAUDE, instead="use agent-cli -- /review"),
    "mcp-server": Foreign(_CODEX, instead="use agent-cli mcp serve: docs/mcp-server.md"),
    "app-server": Foreign(_CODEX, instead="editors start agent-cli acp: docs/acp.md"),
    "cloud": Foreign(_CODEX, instead="tasks run on this machine: agent-cli batch takes many"),
    "features": Foreign(_CODEX, instead="agent-cli config show --origin lists the settings"),
    "sandbox": Foreign(_CODEX, instead="commands of the model run in it; [sandbox] sets it"),
    "run": Foreign("OpenCode and goose", instead='use agent-cli -p "PROMPT"'),
}

FOREIGN_SLASH_COMMANDS: Final[Mapping[str, Foreign]] = {
    "new": Foreign(_CODEX_PI, "clear"),
    "reset": Foreign(_CLAUDE, "clear"),
    "cost": Foreign(_CLAUDE, "usage"),
    "stats": Foreign(_CLAUDE, "usage"),
    "quit": Foreign(_ALL, "exit"),
    "continue": Foreign(_CLAUDE, "resume"),
    "branch": Foreign(_CLAUDE, "fork"),
    "clone": Foreign(_PI, "fork"),
    "checkpoint": Foreign(_CLAUDE, "rewind"),
    "allowed-tools": Foreign(_CLAUDE, "permissions"),
    "approvals": Foreign(_CODEX, "mode"),
    "plan": Foreign(_CLAUDE_CODEX, "mode plan"),
    "bashes": Foreign(_CLAUDE, "jobs"),
    "tasks": Foreign(_CLAUDE, "jobs"),
    "ps": Foreign(_CODEX, "jobs"),
    "todos": Foreign(_CLAUDE, "todo"),
    "subagents": Foreign(_CODEX, "agents"),
    "hotkeys": Foreign(_PI, "help"),
    "keymap": Foreign(_CODEX, "help"),
    "share": Foreign(_PI, "export"),
    "side": Foreign(_CODEX, "btw"),
    "tree": Foreign(_PI, instead="/rewind goes back, /fork list continues in a copy"),
    "memory": Foreign(_CLAUDE, instead=_MEMORY),
    "memories": Foreign(_CODEX, instead=_MEMORY),
    "config": Foreign(_CLAUDE, instead="agent-cli config show --origin lists the settings"),
    "settings": Foreign(_CLAUDE_PI, instead="agent-cli config show --origin lists the settings"),
    "status": Foreign(_CLAUDE_CODEX, instead="/doctor, /context and /usage each show a part"),
    "session": Foreign(_PI, instead="/context and /usage show the session, /resume lists others"),
    "vim": Foreign(_CLAUDE_CODEX, instead="start with --vi; the setting ui.vi keeps it"),
    "login": Foreign(_ALL, instead="set ANTHROPIC_API_KEY and start anew; /doctor checks it"),
    "logout": Foreign(_ALL, instead="no login is kept: unset ANTHROPIC_API_KEY"),
    "bug": Foreign(_CLAUDE_PI, instead=_REPORT),
    "feedback": Foreign(_CLAUDE_CODEX, instead=_REPORT),
    "mention": Foreign(_CODEX, instead="type @ and the beginning of a file's name"),
    "skills": Foreign(_CLAUDE_CODEX, instead="/help lists skills with the other commands"),
    "plugin": Foreign(_CLAUDE, instead="agent-cli plugins adds, lists and removes plugins"),
    "plugins": Foreign(_CODEX, instead="agent-cli plugins adds, lists and removes plugins"),
    "ide": Foreign(_CLAUDE, instead="editors start agent-cli acp: docs/acp.md"),
    "sandbox": Foreign(_CLAUDE, instead="/doctor shows it; [sandbox] in the settings sets it"),
    "statusline": Foreign(_CLAUDE_CODEX, instead="set status_line.command in the settings"),
    "terminal-setup": Foreign(_CLAUDE, instead="Alt-Enter starts a new line: docs/terminals.md"),
    "stop": Foreign(_CODEX, instead="/jobs stop 1 ends a command in the background"),
    "name": Foreign(_PI, "rename"),
    "fast": Foreign(_CLAUDE, instead="/model opus-fast answers faster, at twice the price"),
    "scoped-models": Foreign(_PI, instead="/model chooses among [models] of the settings"),
    "import": Foreign(_CODEX_PI, instead="leave, and use agent-cli import --dry-run"),
    "reload": Foreign(_PI, instead="start anew with agent-cli -c: all files are read again"),
    "changelog": Foreign(_PI, instead="CHANGELOG.md lists what changed"),
    "release-notes": Foreign(_CLAUDE, instead="CHANGELOG.md lists what changed"),
    "worktree": Foreign(_CODEX, instead="start with --worktree NAME"),
    "code-review": Foreign(_CLAUDE, instead="use /review"),
    "ultrareview": Foreign(_CLAUDE, instead="use /review"),
    "security-review": Foreign(_CLAUDE, instead="use /review, and say that security matters"),
    "simplify": Foreign(_CLAUDE, instead="use /review, and say that simplicity matters"),
    "pr-comments": Foreign(_CLAUDE, instead="ask for them: the model can run gh"),
    "install-github-app": Foreign(_CLAUDE, instead="a workflow runs agent-cli -p: docs/scripts.md"),
    "cd": Foreign(_CLAUDE, instead="start it there: cd DIR && agent-cli; /add-dir DIR adds one"),
    "color": Foreign(_CLAUDE, instead="/theme changes the colours"),
    "recap": Foreign(_CLAUDE_CODEX, instead="ask beside the work: /btw what was done so far?"),
    "autocompact": Foreign(_CLAUDE, instead="set compaction.threshold_tokens in the settings"),
    "loop": Foreign(_CLAUDE, instead="/goal works until a check passes; cron runs agent-cli -p"),
    "schedule": Foreign(_CLAUDE, instead="no task is started by the clock: cron runs agent-cli -p"),
    "keybindings": Foreign(_CLAUDE, instead="choose keys in [ui.keys], or vi's by ui.vi"),
    "reload-plugins": Foreign(_CLAUDE, instead="start anew with agent-cli -c: all is read again"),
    "upgrade": Foreign(_CLAUDE, instead=_UPGRADE),
    "privacy-settings": Foreign(_CLAUDE, instead="docs/privacy.md says what is sent where"),
    "chrome": Foreign(_CLAUDE, instead="add an MCP server with a browser: docs/mcp.md"),
    "remote-control": Foreign(_CLAUDE, instead="sessions run on this machine: use ssh and tmux"),
    "teleport": Foreign(_CLAUDE, instead="sessions run on this machine: /resume lists them"),
    "debug": Foreign(_CLAUDE, instead="docs/troubleshooting.md has the logs; /doctor checks"),
    "debug-config": Foreign(_CODEX, instead="agent-cli config show --origin lists the settings"),
    "personality": Foreign(_CODEX, instead="set output_style in the settings"),
    "experimental": Foreign(_CODEX, instead="agent-cli config example lists all settings"),
    "apps": Foreign(_CODEX, instead="add an MCP server: docs/mcp.md; /mcp lists them"),
    "agent": Foreign(_CODEX, "agents"),
    "trust": Foreign(_PI, instead="agent-cli trust --show lists what is trusted here"),
    "compress": Foreign(_GEMINI, "compact"),
    "restore": Foreign(_GEMINI, "rewind"),
    "chat": Foreign(_GEMINI, instead="/resume opens a session, /rename NAME names this one"),
    "directory": Foreign(_GEMINI, instead="use /add-dir DIR"),
    "sessions": Foreign(f"OpenCode and {_KIMI}", "resume"),
    "editor": Foreign("OpenCode", instead="Ctrl-G opens your editor"),
    "redo": Foreign("OpenCode", instead="an undo stays: have the model make the change again"),
    "yolo": Foreign(_KIMI, "mode yolo"),
    "tokens": Foreign(_AIDER, "context"),
    "add": Foreign(_AIDER, instead="type @ and the beginning of a file's name"),
    "ask": Foreign(_AIDER, instead="/mode plan only reads"),
}

# A comma or a space outside parentheses ends a rule: "Bash(git log *),Read Edit".
_RULE: Final = re.compile(r"(?:[^\s,()]|\([^()]*\))+")


def foreign_words(name: str, glued: str | None, words: list[str]) -> Sequence[str] | None:
    """Return our words for another agent's option; None if no agent listed here has it.

    Args:
        name: The option.
        glued: Its value if it was written with the option: `--name=value`.
        words: The words behind the option; the rules among them are removed from the list.

    Raises:
        UsageError: Nothing here does the same.
    """
    foreign = FOREIGN_OPTIONS.get(name)
    if foreign is None:
        return None
    if not foreign.ours:
        raise UsageError(f"{name} is an option of {foreign.agents}: {foreign.instead}")
    if foreign.takes_rules:
        return _with_rules(name, foreign.ours, glued, words)
    option, *value = foreign.ours.split(maxsplit=1)
    if value and glued is not None:
        raise UsageError(f"{name} takes no value")
    return [option, *value] if glued is None else [f"{option}={glued}"]


def command_here(name: str) -> str:
    """Return our words for another agent's command, such as "mode plan" for "/plan", or "".

    Raises:
        UsageError: Nothing here does the same.
    """
    commands = FOREIGN_SLASH_COMMANDS if name.startswith("/") else FOREIGN_COMMANDS
    foreign = commands.get(name.removeprefix("/"))
    if foreign and not foreign.ours:
        raise UsageError(f"{name} is a command of {foreign.agents}: {foreign.instead}")
    return foreign.ours if foreign else ""


def _with_rules(name: str, ours: str, glued: str | None, words: list[str]) -> Sequence[str]:
    if glued is None:
        if not words or words[0].startswith("-"):
            raise UsageError(f"{name} needs a value; see agent-cli --help")
        texts = [words.pop(0)]
        while words and _is_rule(words[0]):
            texts.append(words.pop(0))
    else:
        texts = [glued]
    return [f"{ours}={rule}" for text in texts for rule in _RULE.findall(text)]


def _is_rule(word: str) -> bool:
    """Return whether a word is a rule of Claude Code, and not the prompt."""
    tool = word.partition("(")[0]
    is_tool = tool.startswith(OF_SERVERS) or our_tool_name(tool) != tool
    return is_tool and _RULE.fullmatch(word) is not None
