"""A disk that fills up, for tests of what a write that was cut off leaves behind."""

import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def full_disk(path: Path, *, free: int) -> Generator[None]:
    """Limit files to *free* more bytes than *path* has: a write beyond is cut, then refused."""
    old, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (old, hard))
