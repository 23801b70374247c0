"""Opening a page in the user's browser."""

import os
from pathlib import Path

import pytest

from agent_cli.system.desktop import open_page


async def test_browser_gets_the_address_but_no_access_to_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workspace file named like the module that opens the browser is not run either."""
    Path("webbrowser.py").write_text("open('hijacked', 'w')")
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\n(: < /dev/tty) 2>&- && exit\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")

    await open_page("https://pay.example/1?a=b&c=d")

    assert (tmp_path / "opened").read_text() == "https://pay.example/1?a=b&c=d\n"
    assert not Path("hijacked").exists()


async def test_browser_program_in_the_workspace_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threat 13: PATH may lead into the repository, absolutely or relative to it."""
    browser = Path("bin/browser").absolute()
    browser.parent.mkdir()
    browser.write_text(f"#!/bin/sh\ntouch {browser.parent}/CANARY\n")
    browser.chmod(0o755)
    monkeypatch.setenv("PATH", f"{browser.parent}:bin:{os.environ['PATH']}")
    monkeypatch.setenv("BROWSER", "browser %s")

    await open_page("https://pay.example/")

    assert not (browser.parent / "CANARY").exists()
