"""What commands can do to the screen."""

from agent_cli.errors import UsageError
from agent_cli.repl.live.display import Display
from agent_cli.repl.live.results import Results
from agent_cli.repl.live.screen import LiveScreen
from agent_cli.repl.live.view import View
from agent_cli.repl.look import ThemeName
from agent_cli.repl.markdown import THEMES
from agent_cli.terminal.narration import one_line


class ScreenControls:
    """See `command.Controls`."""

    def __init__(
        self,
        screen: LiveScreen,
        display: Display,
        view: View,
        results: Results,
        *,
        theme: ThemeName,
    ) -> None:
        self.theme: str = theme
        self._screen = screen
        self._display = display
        self._view = view
        self._results = results

    @property
    def is_paused(self) -> bool:
        """Whether the display is held."""
        return self._display.is_paused

    def pause(self, *, paused: bool) -> None:
        """Hold the display, or let it go on."""
        self._display.pause(paused=paused)

    def show_output(self, number: int | None) -> None:
        """Print what was folded; the last one without a number."""
        output = self._results.output(number)
        if output is None:
            raise UsageError("nothing was folded under that number")
        self._display.aside(output)

    def put_back(self, text: str) -> None:
        """Put *text* into the input, before what stands there."""
        self._screen.put_back(text)

    def copy(self, text: str) -> None:
        """Put *text* on the clipboard, if the terminal lets programs do that."""
        self._screen.copy(text)

    def use_theme(self, name: str) -> None:
        """Show answers in another theme from the next one on."""
        theme = next((known for known in THEMES if known == name), None)
        if theme is None:
            raise UsageError(f"there is no theme {one_line(name)}; there are: {', '.join(THEMES)}")
        self.theme = theme
        self._view.use_theme(THEMES[theme if self._screen.paint.color else "none"])
