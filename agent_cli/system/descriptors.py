"""Write to open descriptors."""

import os


def write_all(descriptor: int, data: bytes) -> None:
    """Write *data*, in as many parts as it takes.

    Raises:
        OSError: The reader is gone, or a disk that filled up took a part first.
    """
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
