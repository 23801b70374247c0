"""Write the rules as a profile for macOS's sandbox-exec. Untested: written from documentation only.

It has to pass the same probe as the other backends, so it is not used where it does not work.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from agent_cli.sandbox.confinement import Confinement
from agent_cli.sandbox.places import Places
from agent_cli.sandbox.policy import Rules

PROGRAM = Path("/usr/bin/sandbox-exec")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/ptmx", "/dev/stdout", "/dev/stderr")


def confinement(rules: Rules, places: Places) -> Confinement:
    """Return the parameters for starting a command under *rules*."""
    return Confinement(
        prefix=(str(PROGRAM), "-p", "\n".join(profile(rules, places))),
        environment={"TMPDIR": str(places.temporary)},
    )


def profile(rules: Rules, places: Places) -> Iterator[str]:
    """Yield the lines of the profile; the last line about a path wins."""
    yield "(version 1)"
    yield "(deny default)"
    yield "(allow process-exec process-fork signal sysctl-read mach-lookup file-read*)"
    yield "(allow file-ioctl pseudo-tty)"
    for name in _DEVICES:
        yield f"(allow file-write* (literal {json.dumps(name)}))"
    for path in (*rules.writable, places.temporary):
        yield f"(allow file-write* (subpath {_quoted(path)}))"
    for path in (*rules.read_only, *rules.missing):
        yield f"(deny file-write* (subpath {_quoted(path)}))"
    for path in rules.hidden:
        yield f"(deny file-read* file-write* (subpath {_quoted(path)}))"
    if rules.network:
        yield "(allow network*)"
    else:
        yield '(allow network* (local ip "localhost:*"))'


def _quoted(path: Path) -> str:
    return json.dumps(str(path), ensure_ascii=False)
