"""The output of a command: in bounded memory, and its lines by pattern."""

import time
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.contracts.errors import ToolError
from agent_cli.system.programs import find_program
from agent_cli_tools import output as output_module
from agent_cli_tools.output import EXCERPT_BYTES, LinePattern, OutputBuffer


class Spills:
    """Opens spill files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self) -> tuple[Path, BinaryIO]:
        path = self.folder / "001.log"
        return path, path.open("xb", buffering=0)


def no_spill() -> tuple[Path, BinaryIO]:
    raise OSError(28, "No space left on device")


@given(st.lists(st.binary(max_size=50).filter(lambda piece: b"\x1b" not in piece), max_size=2))
def test_short_output_is_returned_unchanged(pieces: list[bytes]) -> None:
    buffer = OutputBuffer(no_spill)
    for piece in pieces:
        buffer.add(piece)

    assert buffer.text() == b"".join(pieces).decode("utf-8", "replace")
    assert buffer.spill_path is None


@pytest.mark.parametrize(
    "raw", [b"\0" * 32_768, bytes(range(256)) * 100, b"\x7fELF" + bytes(range(16)) * 5_000]
)
def test_binary_output_is_described_and_saved_to_a_file(tmp_path: Path, raw: bytes) -> None:
    """32 kB of NULs used to be 197 kB of JSON in each later request."""
    buffer = OutputBuffer(Spills(tmp_path))
    buffer.add(raw)

    text = buffer.text()

    path = buffer.spill_path
    assert text == f"[binary output: {len(raw):,} bytes, not shown; all of it is in {path}]"
    buffer.close()
    assert (tmp_path / "001.log").read_bytes() == raw


def test_file_names_separated_by_nul_are_not_binary_output(tmp_path: Path) -> None:
    """`find -print0` writes text."""
    raw = b"".join(b"./src/module_%d.py\0" % number for number in range(300))
    buffer = OutputBuffer(Spills(tmp_path))
    buffer.add(raw)

    assert buffer.text() == raw.decode()


def test_escape_sequences_are_removed_from_the_output() -> None:
    """Colours, cursor movements, titles and links mean nothing to a model."""
    buffer = OutputBuffer(no_spill)
    buffer.add(b"\x1b]0;title\x07\x1b[1;31mred\x1b[0m\x1b[2K \x1b]8;;https://x\x1b\\link")
    buffer.add(b"\x1b]8;;\x1b\\\x1b[?25h" + b"\x1b[31m" * 10_000)

    assert buffer.text().startswith("red link")
    assert "\x1b[31m" not in buffer.text()


@pytest.mark.parametrize("piece_bytes", [1, 7, 1000, 10**6])
def test_long_output_keeps_head_and_tail_and_spills_everything(
    tmp_path: Path, piece_bytes: int
) -> None:
    """Whole lines only, and the file holds every byte, however the output arrived."""
    raw = b"".join(b"%05d some longer line\n" % number for number in range(3_000))
    buffer = OutputBuffer(Spills(tmp_path))
    for start in range(0, len(raw), piece_bytes):
        buffer.add(raw[start : start + piece_bytes])
    buffer.close()

    head, _, rest = buffer.text().partition("\n[… ")
    note, _, tail = rest.partition(" …]\n")
    assert raw.startswith(head.encode() + b"\n")
    assert raw.endswith(tail.encode())
    head_bytes = EXCERPT_BYTES * 3 // 8
    assert head_bytes - 30 < len(head) <= head_bytes
    assert EXCERPT_BYTES - head_bytes - 30 < len(tail) <= EXCERPT_BYTES - head_bytes
    left_out = len(raw) - len(head) - len(tail)
    assert (
        note == f"{left_out:,} of 69,000 characters left out; all of it is in {buffer.spill_path}"
    )
    assert (tmp_path / "001.log").read_bytes() == raw


def test_output_of_many_short_lines_is_cut_to_two_thousand(tmp_path: Path) -> None:
    buffer = OutputBuffer(Spills(tmp_path))
    buffer.add(b"\n" * 10_000)
    buffer.close()

    assert buffer.text().count("\n") <= 2_001
    assert (tmp_path / "001.log").read_bytes() == b"\n" * 10_000


def test_one_giant_line_is_cut_between_characters(tmp_path: Path) -> None:
    """Half a character would be shown as garbage."""
    buffer = OutputBuffer(Spills(tmp_path))
    buffer.add(b"x" + "é".encode() * 40_000)
    buffer.close()

    assert "\ufffd" not in buffer.text()
    assert len(buffer.text().encode()) < 50 * 1024


def test_spill_file_ends_at_its_size_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_module, "SPILL_BYTES_MAX", 100_000)
    buffer = OutputBuffer(Spills(tmp_path))
    for _ in range(30):
        buffer.add(b"y" * 9_999 + b"\n")
    buffer.close()

    assert (tmp_path / "001.log").stat().st_size == 100_000
    assert "the first 64 MB are in" in buffer.text()


def test_output_on_a_full_disk_loses_its_middle_and_says_so() -> None:
    """The command must not fail because its output cannot be stored."""
    buffer = OutputBuffer(no_spill)
    buffer.add(b"a" * 20_000 + b"b" * 20_000)

    assert "could not be kept: No space left on device" in buffer.text()
    assert buffer.text().startswith("aaa")
    assert buffer.text().endswith("bbb")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_output_on_a_disk_that_fills_up_says_what_was_not_kept() -> None:
    full = Path("/dev/full")
    buffer = OutputBuffer(lambda: (full, full.open("wb", buffering=0)))
    buffer.add(b"a" * 40_000)
    buffer.add(b"b" * 40_000)

    assert "could not be kept" in buffer.text()


def test_excerpt_fits_a_small_result_limit_and_states_the_full_length(tmp_path: Path) -> None:
    """S1-35: cut only once, and the stated size is that of the whole output."""
    buffer = OutputBuffer(Spills(tmp_path), result_chars_max=1_500)
    for _ in range(1_000):
        buffer.add(("é" * 59 + "\n").encode())
    buffer.close()

    shown = buffer.text()
    assert len(shown) < 1_500 - len("\n[exit 0 · 0.1 s]")
    assert "of 60,000 characters left out" in shown
    assert buffer.total_chars == 60_000


def test_last_lines_of_growing_output_can_be_shown() -> None:
    buffer = OutputBuffer(no_spill)
    buffer.add("é".encode() * 2_000)

    assert buffer.last_lines(5) == "éé"


RIPGREP = [str(find_program("rg", outside=Path("/nowhere"))), "--no-config"]


def pattern(regex: str) -> LinePattern:
    return LinePattern(regex, RIPGREP)


async def test_matching_lines_are_numbered_from_0() -> None:
    assert await pattern("b").numbers(["abb", "c", "", "b"]) == [0, 3]
    assert await pattern("b").numbers([]) == []


async def test_text_already_searched_is_not_searched_again(tmp_path: Path) -> None:
    """A server prints for hours."""
    log, wanted = tmp_path / "1.log", pattern("ready")
    log.write_text("no\nstill ")
    assert await wanted.first_match(log) == ""

    log.write_text("ready, which was not there before\nstill not ready\n")

    assert await wanted.first_match(log) == "still not ready"


async def test_line_longer_than_the_block_size_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_cli_tools.output._BYTES_AT_ONCE", 10)
    log = tmp_path / "1.log"
    log.write_text("x" * 35 + "\nready\n")

    assert await pattern("^ready").first_match(log) == "ready"


async def test_missing_log_matches_nothing(tmp_path: Path) -> None:
    assert await pattern("x").first_match(tmp_path / "1.log") == ""


async def test_pattern_with_nested_repetition_does_not_hang() -> None:
    """Python's `re` would take longer than the age of the universe for this one."""
    began_s = time.process_time()

    assert await pattern("(a+)+$").numbers(["a" * 5_000 + "b"]) == []

    assert time.process_time() - began_s < 5


async def test_without_ripgrep_checking_a_pattern_is_an_error() -> None:
    with pytest.raises(ToolError, match="could not be tried"):
        await LinePattern("x", ["/nowhere/rg"]).check()
