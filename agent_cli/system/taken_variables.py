"""Take a secret out of this process's environment, also out of what /proc shows of it."""

import ctypes
import os
import sys


def take_variable(name: str) -> str:
    """Return the variable *name*, and remove it; "" if it is not set.

    Programs that we start inherit the environment. Removing a variable leaves the block in which
    the process got it, which `/proc/PID/environ` shows to all programs of the same user; so its
    value is overwritten there.
    """
    value = os.environ.get(name, "")
    if value and sys.platform == "linux":
        getenv = ctypes.CDLL(None).getenv
        getenv.restype, getenv.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        if address := getenv(os.fsencode(name)):
            ctypes.memset(address, ord("x"), len(ctypes.string_at(address)))
    os.environ.pop(name, None)
    return value
