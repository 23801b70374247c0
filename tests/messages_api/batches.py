"""The Message Batches of the test server: created, in progress for some requests, then ended."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from tests.messages_api.received import ReceivedRequest
from tests.messages_api.refusals import Refusal
from tests.messages_api.rules import check
from tests.messages_api.script import Answer, Payload, RawAnswer, error, raw

PATH: Final = "/v1/messages/batches"
REQUESTS_MAX: Final = 100_000
_CUSTOM_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
USAGE: Final = {"input_tokens": 1_000, "output_tokens": 100}


@dataclass
class FakeBatches:
    """Answers the requests of `PATH`.

    Attributes:
        take: Returns the scripted answer to one request of a batch.
        key: The key that is accepted; None accepts any.
        polls: How often a batch says that it is in progress before it has ended.
        refused: Answers to requests for a new batch, which create none.
        arrived: Called for each new batch, before the client gets its answer.
        created: The bodies of the batches.
    """

    take: Callable[[ReceivedRequest], Answer]
    key: str | None = None
    polls: int = 0
    refused: list[RawAnswer] = field(default_factory=list[RawAnswer])
    arrived: Callable[[], object] = lambda: None
    created: list[Payload] = field(default_factory=list[Payload])
    refusals: list[Refusal] = field(default_factory=list[Refusal])
    _asked: dict[str, int] = field(default_factory=dict[str, int])
    _results: dict[str, list[Payload]] = field(default_factory=dict[str, list[Payload]])

    def answer_to(self, request: ReceivedRequest) -> RawAnswer:
        """Return the answer to *request*."""
        if refusal := self._door(request):
            return self._no(refusal)
        path = request.path.partition("?")[0].removeprefix(PATH)
        if (request.method, path) == ("POST", ""):
            return self._create(request)
        if (request.method, path) == ("GET", ""):
            return self._list(request)
        _, id, *rest = path.split("/")
        if request.method != "GET" or id not in self._results or rest not in ([], ["results"]):
            return self._no(Refusal("route", 404, "not_found_error", f"Not found: {path}"))
        if not rest:
            self._asked[id] += 1
            return _json(self._described(id, request))
        if self._asked[id] <= self.polls:
            return self._no(_bad(f"Batch {id} has no available results."))
        lines = "".join(json.dumps(line) + "\n" for line in self._results[id])
        return raw(200, lines.encode(), content_type="application/x-jsonl")

    def _door(self, request: ReceivedRequest) -> Refusal | None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        given = given or request.headers.get("x-api-key", "")
        if not given or (self.key is not None and given != self.key):
            return Refusal("auth", 401, "authentication_error", "invalid x-api-key")
        return None

    def _create(self, request: ReceivedRequest) -> RawAnswer:
        if self.refused:
            return self.refused.pop(0)
        requests = request.body.get("requests")
        if refusal := next(_faults(requests), None):
            return self._no(refusal)
        self.created.append(request.body)
        id = f"msgbatch_{len(self.created):04}"
        # The order of results is not that of requests.
        self._results[id] = [self._result(request, each) for each in reversed(requests or [])]
        self._asked[id] = 0
        self.arrived()
        return _json(self._described(id, request))

    def _result(self, request: ReceivedRequest, each: Payload) -> Payload:
        params = each["params"]
        body = json.dumps({**params, "stream": True}).encode()
        fault = check("POST", "/v1/messages", _as_bearer(request.headers), body, None)
        if fault:
            self.refusals.append(fault)
            answer: Answer = error(fault.status, fault.kind, fault.message)
        else:
            answer = self.take(replace(request, body=params))
        if isinstance(answer, RawAnswer):
            failure = json.loads(bytes(answer.steps[0]))  # type: ignore[arg-type]  # a body
            return {"custom_id": each["custom_id"], "result": {"type": "errored", "error": failure}}
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "stop_sequence": None,
            "model": params["model"],
            "content": [*answer.blocks],
            "stop_reason": answer.stop_reason or "end_turn",
            "usage": answer.usage or USAGE,
        }
        result = {"type": "succeeded", "message": message}
        return {"custom_id": each["custom_id"], "result": result}

    def _list(self, request: ReceivedRequest) -> RawAnswer:
        """Return the batches, two a page, the latest first."""
        ids = [*reversed(self._results)]
        _, found, after = request.path.partition("after_id=")
        first = ids.index(after.partition("&")[0]) + 1 if found else 0
        shown = ids[first : first + 2]
        for id in shown:
            self._asked[id] += 1
        data = [self._described(id, request) for id in shown]
        last = shown[-1] if shown else None
        return _json({"data": data, "has_more": first + 2 < len(ids), "last_id": last})

    def _described(self, id: str, request: ReceivedRequest) -> Payload:
        has_ended = self._asked[id] > self.polls
        count = len(self._results[id])
        url = f"http://{request.headers['host']}{PATH}/{id}/results"
        return {
            "id": id,
            "type": "message_batch",
            "created_at": datetime.now(UTC).isoformat(),
            "expires_at": datetime.now(UTC).isoformat(),
            "processing_status": "ended" if has_ended else "in_progress",
            "request_counts": {
                "processing": 0 if has_ended else count,
                "succeeded": count * has_ended,
                "errored": 0,
                "canceled": 0,
                "expired": 0,
            },
            "results_url": url if has_ended else None,
        }

    def _no(self, refusal: Refusal) -> RawAnswer:
        self.refusals.append(refusal)
        return error(refusal.status, refusal.kind, refusal.message)


def _faults(requests: Any) -> Iterator[Refusal]:  # Any: JSON
    if not isinstance(requests, list) or not requests:
        yield _bad("requests: List should have at least 1 item after validation")
        return
    if len(requests) > REQUESTS_MAX:
        yield _bad(f"requests: List should have at most {REQUESTS_MAX} items after validation")
    ids = [str(each.get("custom_id", "")) for each in requests]
    for number, id in enumerate(ids):
        if not _CUSTOM_ID.fullmatch(id):
            yield _bad(f"requests.{number}.custom_id: String should match the pattern")
    if len(set(ids)) < len(ids):
        yield _bad("requests: custom_id must be unique")
    for number, each in enumerate(requests):
        if each["params"].get("stream"):
            yield _bad(f"requests.{number}.params.stream: streaming is not supported in batches")
        if each["params"].get("max_tokens") == 0:
            yield _bad(f"requests.{number}.params.max_tokens: must be at least 1 in batches")


def _bad(message: str) -> Refusal:
    return Refusal("batches", 400, "invalid_request_error", message)


def _as_bearer(headers: Mapping[str, str]) -> dict[str, str]:
    return {**headers, "authorization": headers.get("authorization") or "Bearer x"}


def _json(body: Payload) -> RawAnswer:
    return raw(200, json.dumps(body).encode(), content_type="application/json")
