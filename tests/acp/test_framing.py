"""Newline-delimited JSON, as other programs write and read it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.acp import LineBuffer, RpcFault, decode, encode
from tests.tables import each_row

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.lists(st.binary().filter(lambda line: b"\n" not in line)), st.integers(1, 9))
def test_lines_are_the_same_however_the_bytes_are_split(lines: list[bytes], size: int) -> None:
    data = b"".join(line + b"\n" for line in lines)
    buffer = LineBuffer()

    found = [line for at in range(0, len(data), size) for line in buffer.feed(data[at : at + size])]

    assert found == lines


def test_overlong_line_is_reported_once_and_the_next_line_is_kept() -> None:
    buffer = LineBuffer(line_bytes_max=4)

    assert buffer.feed(b"12345") == []
    assert buffer.feed(b"678\n1234\n") == [None, b"1234"]


@given(st.dictionaries(st.text(), VALUES, max_size=3))
def test_each_line_is_strict_json_that_any_parser_reads(message: dict[str, Any]) -> None:
    """It has no NaN, no lone surrogate and no second line."""
    line = encode(message)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert b"NaN" not in line or "NaN" in str(message)
    json.loads(line.decode("utf-8"), parse_constant=pytest.fail)


@each_row(
    ("line", "text"),
    [
        (rb'{"a": "\ud83d"}', "\ufffd"),
        (rb'{"a": "\ud83d\ude00"}', "\N{GRINNING FACE}"),
        (rb'{"a": "\uD83Dx"}', "\ufffdx"),
        (rb'{"a": "\\ud83d"}', "\\ud83d"),
        (b'{"a": "\xff"}', "\ufffd"),
    ],
)
def test_lone_surrogate_is_replaced_and_a_surrogate_pair_decoded(line: bytes, text: str) -> None:
    assert decode(line) == {"a": text}


@each_row("line", [b"{", b"[" * 100_000, b"1" * 10_000, b"\xff", b"[]", b"1"])
def test_line_that_is_not_a_message_raises_an_rpc_fault(line: bytes) -> None:
    with pytest.raises(RpcFault):
        decode(line)
