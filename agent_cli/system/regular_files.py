"""Read files that others may have replaced by a pipe or a device, on which a reader would wait."""

import errno
import os
import stat
from pathlib import PurePath


def start_of(path: PurePath, bytes_max: int) -> bytes:
    """Return the first *bytes_max* bytes of the regular file *path*.

    Raises:
        OSError: It cannot be read, or is not a regular file.
    """
    # Without O_NONBLOCK, opening a named pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(bytes_max)
    finally:
        os.close(descriptor)
