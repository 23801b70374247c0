"""Save audio, documents and other result content that the model cannot be shown."""

import mimetypes
from hashlib import sha256
from pathlib import Path

from agent_cli.mcp_client.private_file import write_private

# Types that Python's own table lacks, or has only under another name.
_SUFFIXES = {"audio/wav": ".wav", "audio/ogg": ".ogg", "audio/flac": ".flac", "image/webp": ".webp"}


def save_file(folder: Path, data: bytes, media_type: str) -> Path:
    """Write *data* to a file below *folder* and return it; equal data share one file.

    Raises:
        SettingsError: It cannot be written.
    """
    # The server chooses the media type, never the file name.
    kind = media_type.partition(";")[0].strip().lower()
    suffix = _SUFFIXES.get(kind) or mimetypes.guess_extension(kind) or ".bin"
    path = folder / f"{sha256(data).hexdigest()[:16]}{suffix}"
    if not path.exists():
        write_private(path, data)
    return path
