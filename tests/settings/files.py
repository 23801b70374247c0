"""Settings files of a test's user."""

from agent_cli.system import paths


def write_user_settings(text: str) -> None:
    """Replace the content of the user's settings file."""
    path = paths.user_settings_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
