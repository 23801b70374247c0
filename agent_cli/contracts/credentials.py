"""Facts about credentials that every front end tells the user."""

from typing import Final

KEYS_URL: Final = "https://platform.claude.com/settings/keys"
"""The page on which a user creates an API key."""
