"""Apply a restriction to this process, then become a command: see `launching.restricted`.

Imports little: see `launcher`.
"""

import json
import os
import sys
from importlib import import_module
from typing import NoReturn


def main() -> NoReturn:
    """Restrict this process as the first arguments say, whose number leads; run the others."""
    count = int(sys.argv[1])
    command = sys.argv[2 + count :]
    restriction = json.loads("".join(sys.argv[2 : 2 + count]))
    import_module(restriction["module"]).restrict_as_told(restriction)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"cannot start {command[0]}: {error}\n".encode(errors="replace"))
        sys.exit(127)
