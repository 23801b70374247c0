"""Print the HTML page on stdin as Markdown, in a process of its own, which a hostile page can only
fill or end.

    python -P page_process.py URL     both are UTF-8; URL is the address of the page

The parsers take a time that grows with the square of some pages, and no thread can be stopped in
them. Memory and processor time are limited before the first byte is parsed. It imports nothing of
this program.
"""

import re
import resource
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

MEMORY_BYTES_MAX: Final = 1024 * 1024 * 1024
PROCESSOR_S_MAX: Final = 30  # an honest page of 2 MB takes up to 20
_UNREAD: Final = ["script", "style", "noscript", "template", "svg", "iframe", "head"]
_EMPTY_LINES: Final = re.compile(r"\n(?:[ \t]*\n){2,}")
# With less in it, <main> is not what the page is about.
_MAIN_CHARS_MIN: Final = 200


def main(url: str) -> None:
    """Print the page, or on stderr why it cannot be read."""
    _limit_itself()
    html = sys.stdin.buffer.read().decode(errors="replace")
    try:
        text = _markdown(html, url)
    except MemoryError:
        raise
    except ImportError as error:
        sys.exit(str(error))
    except Exception as error:  # the parsers raise anything, with words of the page
        sys.exit(f"its HTML is damaged ({type(error).__name__})")
    sys.stdout.buffer.write(text.encode(errors="replace"))


def _limit_itself() -> None:
    for kind, limit in (
        (resource.RLIMIT_AS, MEMORY_BYTES_MAX),
        (resource.RLIMIT_CPU, PROCESSOR_S_MAX),
        (resource.RLIMIT_FSIZE, 0),
    ):
        with suppress(ValueError, OSError):  # macOS limits no address space
            resource.setrlimit(kind, (limit, limit))


def _markdown(html: str, url: str) -> str:
    from bs4 import BeautifulSoup  # under the limits
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for tag in soup.find_all(_UNREAD):
        tag.decompose()
    part = _main_part(soup)
    for link in part.find_all("a", href=True):
        with suppress(ValueError):  # no URL; it stays as it is
            link["href"] = urljoin(url, str(link["href"]))
    for image in part.find_all("img"):
        image.replace_with(str(image.get("alt") or ""))
    try:
        text = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(part)
    except RecursionError:  # hundreds of elements within each other
        text = part.get_text("\n", strip=True)
    text = _EMPTY_LINES.sub("\n\n", text).strip()
    return f"# {title}\n\n{text}" if title and title not in text[:500] else text


def _main_part(soup: "BeautifulSoup") -> "Tag":
    """Return the part that holds what the page is about; menus and footers stand around it."""
    main = soup.find("main") or soup.find(role="main")
    if main is not None and len(main.get_text(strip=True)) >= _MAIN_CHARS_MIN:
        return main
    return soup.body or soup


if __name__ == "__main__":
    main(sys.argv[1])
