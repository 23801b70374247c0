"""The guards narrow exactly what `isinstance` accepts."""

from collections.abc import Callable
from types import MappingProxyType

from agent_cli.system.shapes import is_array, is_group, is_mapping, is_object, is_sequence
from tests.tables import each_row


@each_row(
    ("guard", "accepted", "refused"),
    [
        (is_object, [{}], [[], MappingProxyType({}), None, "{}"]),
        (is_array, [[]], [(), "[]", None]),
        (is_mapping, [{}, MappingProxyType({})], [[], None]),
        (is_sequence, [[], ()], ["", b"", {}, range(1)]),
        (is_group, [BaseExceptionGroup("several", [OSError()])], [OSError(), None]),
    ],
)
def test_type_guard_accepts_its_own_containers_only(
    guard: Callable[[object], bool], accepted: list[object], refused: list[object]
) -> None:
    assert all(map(guard, accepted))
    assert not any(map(guard, refused))
