"""A server whose tool `go` damages the stream as its argument says; `good` always answers.

If its argument names an action, it performs that once, before it answers anything.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any  # any message on the wire

Action = Callable[[Any], None]
TEXT = {"content": [{"type": "text", "text": "answered"}]}
FATES: dict[str, str] = {}
"""What a call of `go` comes to: "answered", "error", or what its error says."""
ACTIONS: dict[str, Action] = {}


def main() -> None:
    if len(sys.argv) > 1:
        ACTIONS[sys.argv[1]](None)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        match message["method"]:
            case "initialize":
                result: Any = {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": True}, "logging": {}},
                    "serverInfo": {"name": "hostile", "version": "1"},
                }
            case "tools/list":
                names = ("go", "good")
                result = {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]}
            case "tools/call" if message["params"]["name"] == "go":
                ACTIONS[message["params"]["arguments"]["action"]](message["id"])
                continue
            case _:
                result = TEXT
        answer(message["id"], result)


def action(fate: str) -> Callable[[Action], Action]:
    def note(do: Action) -> Action:
        FATES[do.__name__] = fate
        ACTIONS[do.__name__] = do
        return do

    return note


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def send(message: Any) -> None:
    write(json.dumps(message).encode() + b"\n")


def answer(id: Any, result: Any = None) -> None:
    send({"jsonrpc": "2.0", "id": id, "result": TEXT if result is None else result})


def text_with(raw: bytes) -> Callable[[Any], bytes]:
    """Return a line whose text holds *raw* unchanged."""
    return lambda id: (
        json.dumps({"jsonrpc": "2.0", "id": id, "result": TEXT})
        .encode()
        .replace(b"answered", b"answered" + raw)
    )


@action("answered")
def banner(id: Any) -> None:
    write(b"Welcome!\n\n{}\nnull\n[1, 2]\n")
    answer(id)


@action("answered")
def a_batch(id: Any) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}}
    send([note, {"jsonrpc": "2.0", "id": id, "result": TEXT}])


@action("answered")
def a_batch_that_is_half_junk(id: Any) -> None:
    send([7, {"jsonrpc": "2.0", "id": id, "result": TEXT}])


@action("answered")
def bytes_that_are_not_utf8(id: Any) -> None:
    write(text_with(b"\xff\xfe")(id) + b"\n")


@action("answered")
def half_a_character(id: Any) -> None:
    write(text_with(rb"\ud83d")(id) + b"\n")


@action("answered")
def the_other_half(id: Any) -> None:
    write(text_with(rb"\\\udc00 \uDE00\ud83d")(id) + b"\n")


@action("answered")
def surrogates_as_bytes(id: Any) -> None:
    write(text_with(b"\xed\xa0\xbd")(id) + b"\n")


@action("answered")
def carriage_returns(id: Any) -> None:
    write(text_with(b"")(id) + b"\r\n")


@action("answered")
def byte_order_mark(id: Any) -> None:
    write(b"\xef\xbb\xbf" + text_with(b"")(id) + b"\n")


@action("answered")
def one_byte_at_a_time(id: Any) -> None:
    for byte in text_with(b"")(id) + b"\n":
        write(bytes([byte]))


@action("answered")
def an_unknown_block(id: Any) -> None:
    answer(id, {"content": [{"type": "hologram", "data": "x"}, *TEXT["content"]]})


@action("answered")
def an_image_without_data(id: Any) -> None:
    answer(id, {"content": [{"type": "image"}, 7, None, *TEXT["content"]]})


@action("answered")
def structured_nan(id: Any) -> None:
    answer(id, {**TEXT, "structuredContent": {"x": float("nan")}})


@action("answered")
def ten_megabytes(id: Any) -> None:
    answer(id, {"content": [{"type": "text", "text": "answered " + "x" * 10_000_000}]})


@action("answered")
def answered_twice(id: Any) -> None:
    answer(id)
    answer(id)


@action("answered")
def an_answer_nobody_asked_for(id: Any) -> None:
    answer(987_654)
    answer(id)


@action("answered")
def a_flood_of_messages(id: Any) -> None:
    for _ in range(5_000):
        params = {"level": "info", "data": "drip"}
        send({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
    answer(id)


@action("answered")
def a_flood_of_changes(id: Any) -> None:
    for _ in range(500):
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    answer(id)


@action("answered")
def progress_of_nothing(id: Any) -> None:
    for token in ("nobody", None, -1, 10**30):
        params = {"progressToken": token, "progress": float("nan")}
        send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    answer(id)


@action("answered")
def a_request_of_an_unknown_method(id: Any) -> None:
    send({"jsonrpc": "2.0", "id": 1, "method": "wallet/empty", "params": {}})
    answer(id)


@action("answered")
def a_whole_number_written_as_a_fraction(id: Any) -> None:
    answer(float(id))


@action("answered")
def a_number_written_as_a_text(id: Any) -> None:
    answer(str(id))


@action("answered")
def indented_over_several_lines(id: Any) -> None:
    message = {"jsonrpc": "2.0", "id": id, "result": TEXT}
    write(json.dumps(message, indent=2).encode() + b"\n")


@action("answered")
def a_brace_and_no_message(id: Any) -> None:
    write(b"{\n  half: 'a line',\n")
    answer(id)


@action("answered")
def a_brace_before_a_message_over_several_lines(id: Any) -> None:
    write(b"{\n  half: 'a line',\n")
    indented_over_several_lines(id)


@action("answered")
def very_many_indented_lines_and_no_message(id: Any) -> None:
    write(b"{\n" + b" x\n" * 1_000_000)
    answer(id)


@action("answered")
def an_indented_object_that_is_no_message(id: Any) -> None:
    write(b"{\n  loaded: 3\n}\n")
    answer(id)


@action("refused the call: no such customer")
def an_error_that_is_a_text(id: Any) -> None:
    send({"jsonrpc": "2.0", "id": id, "error": "no such customer"})


@action("refused the call: no such customer")
def an_error_about_no_id(id: Any) -> None:
    send({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "no such customer"}})


@action("gave no result: its answer is not JSON. The call may have taken effect")
def nested_without_an_end(id: Any) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    write(b'{"jsonrpc": "2.0", "id": %d, "result": {"content": %s}}\n' % (id, deep))


NOT_JSON = "gave no result: its answer is not JSON. The call may have taken effect"
RESULT = rb'"result": {"content": [{"type": "text", "text": "C:\Users"}]}'


@action(NOT_JSON)
def no_json_with_its_id_first(id: Any) -> None:
    write(b'{"id": %d, "jsonrpc": "2.0", %s}\n' % (id, RESULT))


@action(NOT_JSON)
def no_json_with_its_version_last(id: Any) -> None:
    write(b'{"id": %d, %s, "jsonrpc": "2.0"}\n' % (id, RESULT))


@action(NOT_JSON)
def no_json_with_its_id_last(id: Any) -> None:
    write(b'{"jsonrpc": "2.0", %s, "id": %d}\n' % (RESULT, id))


@action(NOT_JSON)
def no_json_with_its_result_first(id: Any) -> None:
    write(b'{%s, "id": %d, "jsonrpc": "2.0"}\n' % (RESULT, id))


@action(NOT_JSON)
def no_json_with_its_id_in_quotes(id: Any) -> None:
    write(b'{"jsonrpc": "2.0", "id": "%d", %s}\n' % (id, RESULT))


@action(NOT_JSON)
def a_line_break_in_a_text_before_its_id(id: Any) -> None:
    write(b'{"jsonrpc": "2.0", %s, "id": %d}\n' % (RESULT.replace(b"Users", b"\n"), id))


@action("answered")
def a_request_that_is_no_json(id: Any) -> None:
    write(b'{"jsonrpc": "2.0", "id": %d, "method": "roots/list", "params": {x}}\n' % id)
    answer(id)


@action("answered")
def a_request_that_is_no_json_with_its_method_last(id: Any) -> None:
    write(b'{"jsonrpc": "2.0", "id": %d, "params": {x}, "method": "roots/list"}\n' % id)
    write(b'{"id": %d, "jsonrpc": "2.0", "params": {x}, "method": "roots/list"}\n' % id)
    answer(id)


@action("answered")
def an_id_of_thousands_of_digits(id: Any) -> None:
    write(b'{"jsonrpc": "2.0", "id": %s, "result": {x}}\n' % (b"9" * 5_000))
    answer(id)


@action("error")
def nested_deeply(id: Any) -> None:
    value: Any = 1
    for _ in range(300):
        value = [value]
    answer(id, {**TEXT, "structuredContent": {"x": value}})


@action("gave no result: its answer is not valid MCP. The call may have taken effect")
def a_list_as_result(id: Any) -> None:
    answer(id, [1, 2])


@action("answered")
def content_that_is_no_list(id: Any) -> None:
    answer(id, {"content": "answered"})


@action("answered")
def text_before_a_message(id: Any) -> None:
    write(b"Loading..." + text_with(b"")(id) + b"\n")


@action("answered")
def text_before_a_message_with_its_id_first(id: Any) -> None:
    message = {"id": id, "jsonrpc": "2.0", "result": TEXT}
    write(b"Loading..." + json.dumps(message).encode() + b"\n")


@action("refused the call: no")
def an_error_with_a_text_as_code(id: Any) -> None:
    send({"jsonrpc": "2.0", "id": id, "error": {"code": "E_FAIL", "message": "no"}})


@action("gave no sign of life")
def the_wrong_id(id: Any) -> None:
    answer(id + 1000)


@action("gave no sign of life")
def silence(id: Any) -> None:
    pass


@action("ended during the call: it sent a line of more than 32 MB. The call may have taken effect")
def a_line_without_an_end(id: Any) -> None:
    try:
        for _ in range(200):
            write(b"x" * 1_000_000)
    except OSError:
        sys.exit(1)


@action("ended during the call")
def only_stdout_is_closed(id: Any) -> None:
    os.close(1)
    time.sleep(600)


@action("ended during the call")
def half_a_line_and_death(id: Any) -> None:
    write(text_with(b"")(id)[:30])
    os.kill(os.getpid(), signal.SIGKILL)


@action("ended during the call")
def exit_in_the_middle(id: Any) -> None:
    os._exit(3)


if __name__ == "__main__":
    main()
