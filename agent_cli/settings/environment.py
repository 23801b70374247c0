"""The program's variables, of the process and of `.env` files, and the platform they choose.

Nothing is written to `os.environ`: tools and MCP servers must not inherit variables of a `.env`.
"""

import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from agent_cli.contracts.errors import KEYS_URL, NoCredentials, SettingsError
from agent_cli.contracts.options import PlatformName
from agent_cli.settings import ENVIRONMENT_PREFIX, NOT_A_VARIABLE, PROJECT_CREDENTIALS, read_file
from agent_cli.settings.schema import Settings
from agent_cli.system import paths
from agent_cli.system.loading import late_pattern

_CREDENTIALS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE")
# Of a variable's name that was meant to be that of the key: one or two letters differ.
_LIKENESS_MIN = 0.86
# The SDK reads these, and those that go with them, from the process alone.
_EXPORTED = ("ANTHROPIC_FEDERATION_RULE_ID", "ANTHROPIC_CONFIG_DIR")

# Tools that exist only when all of their secrets are set.
OPTIONAL_SECRETS: Mapping[str, tuple[str, ...]] = {
    "gmail": ("GOOGLE_CLIENT_ID", "GOOGLE_CLIENT_SECRET"),
    "admin": ("ANTHROPIC_ADMIN_API_KEY",),
    "web search": ("BRAVE_API_KEY",),
}
_USED_NAMES = frozenset(
    (*PROJECT_CREDENTIALS, *(name for names in OPTIONAL_SECRETS.values() for name in names))
)
VARIABLE = late_pattern(r"\$\{([A-Za-z_]\w*)")


class Environment(Mapping[str, str]):
    """Variables by name; the process wins over the project's `.env`, which wins over the user's.

    Attributes:
        project_names: Variables from the project's `.env`.
        notices: Sentences about lines and variables left out.
    """

    def __init__(
        self,
        process: Mapping[str, str],
        user: Mapping[str, str] | None = None,
        project: Mapping[str, str] | None = None,
        notices: tuple[str, ...] = (),
    ) -> None:
        self._layers = {"process": process, "project": project or {}, "user": user or {}}
        self._merged = {**(user or {}), **(project or {}), **process}
        self.notices = notices
        self.project_names = frozenset(n for n in project or {} if n not in process)

    def without_project(self) -> "Environment":
        """Return the variables without the project's `.env`, for the user's own settings."""
        return Environment(self._layers["process"], self._layers["user"])

    def __getitem__(self, name: str) -> str:
        return self._merged[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._merged)

    def __len__(self) -> int:
        return len(self._merged)

    def origin(self, name: str) -> str:
        """Return "environment", "user's .env" or "project's .env"; "not set" without the name."""
        for layer, variables in self._layers.items():
            if name in variables:
                return "environment" if layer == "process" else f"{layer}'s .env"
        return "not set"

    def exported(self, name: str) -> str | None:
        """Return the value that the process itself has, without a `.env`."""
        return self._layers["process"].get(name)

    def is_hidden(self, name: str) -> bool:
        """Return whether a `.env` has the variable, and the process an empty one, which wins."""
        return not self.get(name) and any(
            variables.get(name) for variables in self._layers.values()
        )

    def missing(self, *names: str) -> tuple[str, ...]:
        """Return the *names* of variables that are unset or blank."""
        return tuple(name for name in names if not self.get(name, "").strip())


def load_environment(
    process: Mapping[str, str],
    *,
    workspace: Path,
    trusted: bool,
    guarded: bool = False,
    used: Collection[str] | None = None,
) -> Environment:
    """Read the user's `.env` and, if *trusted*, the project's; if *guarded*, only its guards.

    Args:
        process: The variables of the process.
        workspace: The directory of the project's `.env`.
        trusted: Whether to read that.
        guarded: Whether to read the guards in it.
        used: The variables to take from it; None takes all.

    Raises:
        SettingsError: A `.env` exists but cannot be read.
    """
    user, user_notices = _read(paths.user_env_file(), from_project=False)
    is_read = trusted or guarded
    project, notices = _read(workspace / ".env", from_project=True) if is_read else ({}, [])
    if used is not None:
        project = {name: value for name, value in project.items() if name in used}
    if is_read and not trusted:
        from agent_cli.settings.layers import is_guard_variable  # rare

        project = {name: text for name, text in project.items() if is_guard_variable(name)}
        notices = []
    notices = [*user_notices, *_exposed(paths.user_env_file()), *notices]
    return Environment(process, user, project, tuple(notices))


def acting_variables(workspace: Path, files: Iterable[Path]) -> Mapping[str, str]:
    """Return the variables that the workspace's `.env` sets for this program; no others.

    Most `.env` files belong to the project's own programs, and hold keys that no question should
    show.

    Args:
        workspace: The directory with the `.env`.
        files: The other files that would act: a `${NAME}` in one may stand for such a variable.

    Raises:
        SettingsError: The `.env` cannot be read.
    """
    path = workspace / ".env"
    if not paths.is_file(path):
        return {}
    text = read_file(path)
    names = _USED_NAMES | {name for file in files for name in VARIABLE.findall(_text_of(file))}
    # The parser is imported only where a name occurs at all: this runs at each start.
    if not any(name in text for name in (ENVIRONMENT_PREFIX, *names)):
        return {}
    found, _ = _read(path, from_project=True)
    return {
        name: value
        for name, value in found.items()
        if name in names or name.startswith(ENVIRONMENT_PREFIX)
    }


def _text_of(path: Path) -> str:
    try:
        return read_file(path)
    except SettingsError:  # whoever uses the file reports that
        return ""


def _exposed(path: Path) -> Iterator[str]:
    """Yield a warning if other users can read the keys: the file, and every directory above."""
    try:
        is_open = path.stat().st_mode & stat.S_IROTH and all(
            folder.stat().st_mode & stat.S_IXOTH for folder in path.parents
        )
    except OSError:
        return
    if is_open:
        yield f"{path} can be read by other users of this machine; run: chmod 600 {path}"


def check_chat_credentials(environment: Environment) -> None:
    """Check that a server of the Chat Completions API is named, or a key for OpenAI's own.

    Raises:
        NoCredentials: There is neither an address nor a key.
    """
    if len(environment.missing("OPENAI_API_KEY", "OPENAI_BASE_URL")) == 2:
        raise NoCredentials(
            'provider.wire_api is "chat", and neither OPENAI_API_KEY nor OPENAI_BASE_URL is set;'
            f" export one, or write it into {paths.user_env_file()}"
        )


def check_credentials(environment: Environment) -> None:
    """Check that there are credentials for the model's API.

    Raises:
        NoCredentials: There is no key, token or profile; says where to get one and where to put it.
    """
    if len(environment.missing(*_CREDENTIALS)) < len(_CREDENTIALS) or _finds_some(environment):
        return
    if variable := next(
        (n for n in _EXPORTED if environment.get(n) != environment.exported(n)), None
    ):
        raise NoCredentials(
            f"{variable} counts only in the environment, not in a .env; export it, with the"
            " variables that go with it"
        )
    file = paths.shown(paths.user_env_file())
    if hidden := next(filter(environment.is_hidden, _CREDENTIALS), None):
        raise NoCredentials(
            f"{hidden} is set to nothing, which hides the one in your .env; run: unset {hidden}"
        )
    raise NoCredentials(
        f"ANTHROPIC_API_KEY is not set{_slip(environment)}; get a key at {KEYS_URL}, then export"
        f" it, or write ANTHROPIC_API_KEY=... into {file}; `agent-cli demo` needs none"
    )


def _slip(environment: Environment) -> str:
    """Return where the user may have set the key, in a way that does not count, or ""."""
    from difflib import get_close_matches  # most starts have a key

    begin = f"{paths.user_env_file()}:"
    lines = (each for each in environment.notices if each.startswith(begin))
    if wrong := next((each for each in lines if each.endswith(NOT_A_VARIABLE)), ""):
        return f" ({wrong.removesuffix('; ignored')})"
    others = {name for names in OPTIONAL_SECRETS.values() for name in names}
    found = {name.upper(): name for name in environment if environment[name] and name not in others}
    near = get_close_matches(_CREDENTIALS[0], found, n=1, cutoff=_LIKENESS_MIN)
    return f" (but {found[near[0]]} is: perhaps a wrong name)" if near else ""


def _finds_some(environment: Environment) -> bool:
    """Return whether the SDK would find a workload's identity, or a profile on disk."""
    rule, chosen = (environment.exported(name) for name in _EXPORTED)
    folder = Path(chosen) if chosen else Path.home() / ".config" / "anthropic"
    profiles = (folder / "active_config", folder / "configs/default.json")
    return bool(rule) or any(map(paths.is_file, profiles))


def _read(path: Path, *, from_project: bool) -> tuple[dict[str, str], list[str]]:
    """Return the variables of a `.env` and notices about it; nothing if there is no such file."""
    if not paths.is_file(path):
        return {}, []
    from agent_cli.settings.env_file import read_env_file  # most starts have none

    return read_env_file(path, from_project=from_project)


SWITCHES: Mapping[str, PlatformName] = {
    "CLAUDE_CODE_USE_BEDROCK": "bedrock",
    "CLAUDE_CODE_USE_MANTLE": "bedrock",
    "CLAUDE_CODE_USE_VERTEX": "vertex",
    "CLAUDE_CODE_USE_FOUNDRY": "foundry",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": "aws",
}
PLACED: tuple[PlatformName, ...] = ("anthropic", "aws")
"""The platforms that keep the inference where a request, or else the workspace, says."""
_OFF = frozenset({"", "0", "false", "no", "off"})


def chosen_platform(settings: Settings, environment: Environment) -> PlatformName:
    """Return the chosen platform; a project's files cannot choose one.

    Raises:
        SettingsError: The variables name two different platforms.
    """
    platform = settings.provider.platform
    if platform != "auto":
        return platform
    on = switches_on(environment)
    if not on:
        return "anthropic"
    if len({SWITCHES[name] for name in on}) > 1:
        raise SettingsError(
            f"{' and '.join(on)} are set, and each names another platform; unset all but one, or"
            " set provider.platform"
        )
    return SWITCHES[on[0]]


def serving(settings: Settings, platform: PlatformName) -> Mapping[str, str]:
    """Return the fields of each request about where and in which tier it is served.

    Raises:
        SettingsError: *platform* knows none, so the inference would be anywhere.
    """
    provider = settings.provider
    wanted = (
        ("inference_geo", provider.inference_geo, PLACED),
        ("service_tier", provider.service_tier, ("anthropic",)),
    )
    for name, value, platforms in wanted:
        if value and not (provider.is_whole and platform in platforms):
            raise SettingsError(f"provider.{name} needs Anthropic's own API: remove it")
    return {name: value for name, value, _ in wanted if value}


def switches_on(environment: Environment) -> list[str]:
    """Return the variables that choose a platform."""
    return [name for name in SWITCHES if environment.get(name, "").strip().lower() not in _OFF]
