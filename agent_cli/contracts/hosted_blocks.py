"""Calls that the model's server ran itself, and its citations, as blocks of a reply.

A server's call is a `server_tool_use` block, its result a `..._tool_result` block of the same reply
or of a later one. They go back to that server as they came.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from agent_cli.contracts.timeline import Block, Json
from agent_cli.contracts.tooling import ToolResult, ToolSpec
from agent_cli.contracts.wording import counted, one_line
from agent_cli.system.records import dataclass

USE: Final = "server_tool_use"
_RESULT: Final = "_tool_result"
_ERRORS: Final = {
    "max_uses_exceeded": "no more of these calls in one request",
    "too_many_requests": "too many requests at once",
    "unavailable": "the service is not available now",
    "query_too_long": "the query is too long",
    "request_too_large": "the request is too large",
    "invalid_tool_input": "the input is not valid",
    "url_too_long": "the address is too long",
    "url_not_allowed": "the rules do not allow this address",
    "url_not_in_prior_context": "neither you nor a search named this address",
    "url_not_accessible": "the page cannot be reached",
    "unsupported_content_type": "this kind of content is not read",
    "content_too_large": "the page is too large",
}


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page that a server's call found, with its title."""

    title: str
    url: str


def own_tools(specs: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return the *specs* that work with a server that runs no tools itself."""
    return tuple(
        replace(spec, hosted=None)
        for spec in specs
        if spec.hosted is None or spec.hosted.falls_back
    )


def is_use(block: Block) -> bool:
    """Return whether *block* is a call that the server runs."""
    return block["type"] == USE


def is_result(block: Block) -> bool:
    """Return whether *block* is the result of a call that the server ran."""
    kind = str(block["type"])
    return kind.endswith(_RESULT) and "tool_use_id" in block


def tool_of(result: Block) -> str:
    """Return the name of the tool that *result* is of."""
    return str(result["type"]).removesuffix(_RESULT)


def inputs_of(use: Block) -> list[str]:
    """Return the texts in the input of a call, each as one line: what is searched, or read."""
    arguments = use.get("input")
    values = arguments.values() if isinstance(arguments, dict) else ()
    return [one_line(each) for each in values if isinstance(each, str)]


def has_hosted(content: Iterable[Block]) -> bool:
    """Return whether the server ran a call for a reply of *content*."""
    return any(is_use(block) or is_result(block) for block in content)


def sources(result: Block) -> list[WebPage]:
    """Return the pages that *result* found or read."""
    match result.get("content"):
        case list(found):
            return [WebPage(_text(e, "title"), _text(e, "url")) for e in found if _is_page(e)]
        case {"type": "web_fetch_result", "url": str(url), **more}:
            match more.get("content"):
                case {"title": str(title)}:
                    return [WebPage(title, url)]
                case _:
                    return [WebPage("", url)]
        case _:
            return []


def error_of(result: Block) -> str:
    """Return why the call of *result* failed, or ""."""
    match result.get("content"):
        case {"error_code": str(code)}:
            return f"{_ERRORS.get(code, 'it failed')} ({code})"
        case _:
            return ""


def shown_result(result: Block) -> ToolResult:
    """Return *result* for the screen: how much was found, and the pages as text."""
    if error := error_of(result):
        return ToolResult.error(error)
    found = sources(result)
    if not isinstance(result.get("content"), list):
        return ToolResult.of(found[0].url if found else "")
    lines = [" ".join(filter(None, (one_line(each.title), each.url))) for each in found]
    return ToolResult.of("\n".join(lines), {"kind": "web", "results": len(found)})


def found_at_server(result: ToolResult) -> str:
    """Return how much a server's call found, in words; "" for another result."""
    match result.details:
        case {"kind": "web", "results": int(results)}:
            return counted(results, "result")
        case _:
            return ""


def written(block: Block) -> str:
    """Return a call that the server ran, or its result, as text for a transcript."""
    if is_use(block):
        return f"* {block.get('name')} {' '.join(inputs_of(block))}, run by the API".strip()
    result = shown_result(block)
    outcome = f"error: {result.text}" if result.is_error else found_at_server(result) or "done"
    lines = [] if result.is_error else result.text.splitlines()
    return "\n".join((f"  {outcome}", *(f"    {line}" for line in lines)))


def cited(block: Block) -> list[WebPage]:
    """Return the pages that a block of text cites, each once."""
    found: dict[str, WebPage] = {}
    for each in _citations(block):
        if url := _text(each, "url"):
            found.setdefault(url, WebPage(_text(each, "title"), url))
    return [*found.values()]


def _citations(block: Block) -> Iterator[Json]:
    citations = block.get("citations") if block["type"] == "text" else None
    yield from citations if isinstance(citations, list) else ()


def _is_page(entry: Json) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("url"), str)


def _text(entry: Json, key: str) -> str:
    value = entry.get(key) if isinstance(entry, dict) else None
    return value if isinstance(value, str) else ""
