"""Markdown to test with: a mixed answer of any length, one block of any length, random ones."""

import random
import re
from collections.abc import Sequence

MIXED = """# Release notes, part {n}

The **scheduler** now keeps `max_workers` threads ready and *does not* start new ones while the
queue is short. See [the design](https://example.com/design/{n}) or https://example.com/raw/{n}.
A line of the same paragraph, so long that many terminals have to wrap it, as they should.

## What changed

- first item with `code` and **strong text** in it
  - a nested item, long enough to be wrapped at eighty columns
  - another one
- second item: 日本語のテキストと emoji 🎉 in one line

1. Install it:
   ```bash
   pip install example=={n}  # comment
   export TOKEN="secret"
   ```
2. Run it

> A quote with *emphasis*
> over two lines

```python
class Worker{n}(Thread):
    \"\"\"A docstring
    over two lines.\"\"\"

    def run(self) -> int:
        for index in range({n}):
            print(f"step {{index}} of {n}", end="\\n")  # wider than 80 columns
        return 0x{n}
```

| option | default | meaning |
|---|:-:|--:|
| `timeout_{n}` | 30 | seconds until it gives up |
| **retries** | {n} | how often |

---

"""


def mixed(size: int) -> str:
    """Return a document of *size* characters with every kind of block."""
    parts, length, number = [], 0, 0
    while length < size:
        parts.append(MIXED.format(n=number))
        length += len(parts[-1])
        number += 1
    return "".join(parts)[:size]


def single(kind: str, size: int) -> str:
    """Return one block of *size* characters."""
    head = {
        "table": "| a | b | c |\n|---|---|---|\n",
        "fence": "```python\n",
        "code line": "```\n",
        "nested code": "```js\n",
    }.get(kind, "")
    unit = {
        "fence": "    value = compute(first, 'second', 3)  # and so on\n",
        "code line": "value, ",
        "paragraph": "Some **strong** words and `code` in a line. ",
        "lines": "A line of *many* in one paragraph.\n",
        "list": "- an item with `code` and some more words\n",
        "table": "| cell **one** | `two` | the third of them |\n",
        "quote": "> a line of a *quote* that goes on\n",
        "word": "abcdefghij",
        "open": "an [open bracket and **open strong ",
        "ticks": "a ` b `` c ``` ",
        "wide": "長い文章が続きます。",
        "deep": "> - > 1. a\n",
        "brackets": '[](<a ![b](( "',
        "nested code": "f({[(((\n",
    }[kind]
    return (head + unit * (size // len(unit) + 1))[:size]


SINGLES = ("fence", "code line", "paragraph", "lines", "list", "table", "quote", "word", "open",
           "ticks", "wide", "deep", "brackets", "nested code")  # fmt: skip


def deltas(text: str, size: int = 20) -> list[str]:
    """Cut *text* into equal deltas."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def chunked(text: str, rng: random.Random) -> list[str]:
    """Cut *text* at random."""
    found, start = [], 0
    while start < len(text):
        end = start + rng.choice((1, 2, 3, 7, 20, 100, 1500))
        found.append(text[start:end])
        start = end
    return found


_FRAGMENTS: Sequence[str] = (
    "word", "two words", "**strong**", "*em*", "`code`", "``co`de``", "[text](http://x.y/z)",
    "http://a.b/c", "**", "*", "_", "`", "~~", "~~gone~~", "[", "](", ")", "]", "|", "| a | b |",
    "|---|---|", "\\*", "&lt;", "snake_case", "日本語", "🎉", "👨‍👩‍👧", "é",
    "е́", "\t", "  ", "#", "---",
    "===", "```", "~~~", "```python", "def f(x):", '"""', "/* c", "*/", "x" * 90, "1.", "- ", ">",
    "![i](u)", "<https://x.y>", "long " * 30, "語" * 50, "0", "<b>", "\\", "!",
)  # fmt: skip
_STARTS: Sequence[str] = (
    "", "", "", "# ", "## ", "- ", "* ", "1. ", "2) ", "> ", "  - ", "    ", "\t", "```", "```js",
    "~~~", "| a | b |\n|---|--:|\n| ", "| ", "---", "===", "  ", "   1. ", "> - ", "- > ", ">",
    "- [x] ", "- [ ] ",
)  # fmt: skip


def random_document(rng: random.Random, lines: int = 25) -> str:
    """Return a document in which any block may follow any other."""
    found: list[str] = []
    for _ in range(rng.randint(1, lines)):
        fragments = rng.choices(_FRAGMENTS, k=rng.randint(0, 6))
        found.append(rng.choice(_STARTS) + rng.choice((" ", " ", "")).join(fragments))
    if rng.random() < 0.2:
        found.insert(rng.randint(0, len(found)), " ".join(rng.choices(_FRAGMENTS, k=400)))
    return "\n".join(found) + rng.choice(("", "\n"))


_WITH_WORDS: Sequence[str] = (
    "?", "**?**", "*? ?*", "`?`", "[?](http://x.y/?)", "![?](?)", '[?](http://x "?")', "~~?~~",
    "**?", "?**", "[?", "?]", "`?", "?`", "(?)", "http://?.z", "<http://x.y/?>", "_?_", "| ? |",
    "\\*?", "&lt;?", "語?", "日本語 ?", "🎉 ?", "#?", "?.", "! ?", "[?]: http://x/?",
)  # fmt: skip


def document_of_words(rng: random.Random) -> tuple[str, list[str]]:
    """Return a document and its words, all of them distinct."""
    lines = [
        rng.choice(_STARTS) + " ".join(rng.choices(_WITH_WORDS, k=rng.randint(0, 8)))
        for _ in range(rng.randint(1, 30))
    ]
    # A narrow column breaks longer words, such as addresses.
    lines = [re.sub(r"http://(x\.y/)?", "", line) if "|" in line else line for line in lines]
    first, *others = "\n".join(lines).split("?")
    words = [f"w{number}q" for number in range(len(others))]
    return first + "".join(map("".join, zip(words, others, strict=True))), words
