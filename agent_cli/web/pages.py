"""The text of a page, as Markdown; needs the extra `web` for HTML."""

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin

from agent_cli.contracts.errors import ToolError
from agent_cli.web.requests import Response

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_HTML: Final = ("text/html", "application/xhtml+xml")
_TEXTS: Final = re.compile(r"text/.*|application/(.*\+)?(json|xml|yaml|javascript|toml)|")
_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}charset=[\"']?([\w-]+)", re.IGNORECASE)
_UNREAD: Final = ["script", "style", "noscript", "template", "svg", "iframe", "head"]
_EMPTY_LINES: Final = re.compile(r"\n(?:[ \t]*\n){2,}")
# With less in it, <main> is not what the page is about.
_MAIN_CHARS_MIN: Final = 200


def text_of_page(response: Response) -> str:
    """Return what *response* says; this may take a second.

    Raises:
        ToolError: It is no text.
    """
    kind = response.media_type
    if not _TEXTS.fullmatch(kind) and kind not in _HTML:
        raise ToolError(f"{response.address.url} is {kind}, not text, so it is not read.")
    if b"\0" in response.body[:1024] and "utf-16" not in response.charset.lower():
        raise ToolError(f"{response.address.url} is not text, so it is not read.")
    text = _decoded(response)
    if kind in _HTML or (not kind and text.lstrip()[:1] == "<"):
        return _markdown(text, str(response.address.url))
    return text.strip()


def _decoded(response: Response) -> str:
    declared = _CHARSET.search(response.body[:2048])
    for name in (response.charset, declared[1].decode("ascii") if declared else ""):
        try:
            return response.body.decode(name, errors="replace")
        except LookupError:  # no name, or none of an encoding of texts
            continue
    return response.body.decode("utf-8-sig", errors="replace")


def _markdown(html: str, url: str) -> str:
    from bs4 import BeautifulSoup  # with the first page
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for tag in soup.find_all(_UNREAD):
        tag.decompose()
    part = _main_part(soup)
    for link in part.find_all("a", href=True):
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
