"""Faults of an API server, and of the network to it, at random: whatever a client may meet, and must survive."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.kube.fake_api import FakeApi, refuse
from tests.kube.scripted_server import Answer, Request

#: Requests that are not carried out.
_REFUSALS = (
    (409, "Conflict"),
    (429, "TooManyRequests"),
    (500, "InternalError"),
    (503, "ServiceUnavailable"),
    (401, "Unauthorized"),
)
_EXPIRED = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}
_LATE_SECONDS = 0.02


class ApiFaults:
    """Answers as an API does, or not; give `answer` to a `ScriptedServer`.

    Args:
        rate: share of the requests, and of the events of a watch, that something happens to.

    Attributes:
        is_down: no request is answered.
        counts: what has happened how often.
    """

    def __init__(self, api: FakeApi, chance: Random, rate: float) -> None:
        self._api, self._chance, self.rate = api, chance, rate
        self._lock = threading.Lock()
        self.is_down = False
        self.counts: dict[str, int] = {}

    def answer(self, request: Request) -> Answer:
        if self.is_down:
            return Answer(is_lost=True)
        if "watch=1" in request.target:
            return self._watch(request)
        match self._draw("refused", "lost before", "lost after", "failed after", "cut", "late"):
            case "refused":
                status, reason = self._choose(_REFUSALS)
                headers = {"Retry-After": "0"} if status == 429 else {}
                return Answer(status=status, headers=headers, body=refuse(status, reason).body)
            case "lost before":
                return Answer(is_lost=True)
            case "lost after":
                self._api.answer(request)
                return Answer(is_lost=True)
            case "failed after":
                self._api.answer(request)
                return refuse(504, "Timeout", "request did not complete within the time limit")
            case "cut":
                found = self._api.answer(request)
                return Answer(status=found.status, body=found.body, is_cut=True)
            case "late":
                time.sleep(_LATE_SECONDS)
        return self._api.answer(request)

    def _watch(self, request: Request) -> Answer:
        match self._draw("gone", "gone event", "empty", "refused"):
            case "gone":
                return refuse(410, "Expired")
            case "gone event":
                return Answer(lines=(_EXPIRED,))
            case "empty":
                return Answer(lines=())
            case "refused":
                return refuse(503, "ServiceUnavailable")
        lines = self._api.answer(request).lines
        assert lines is not None
        return Answer(lines=self._disturb(iter(lines)))

    def _disturb(self, lines: Iterator[Any]) -> Iterator[Any]:
        """Yield the events of a watch, some twice or late, until it is cut, perhaps in the middle of one."""
        before: list[Any] = []
        for line in lines:
            match self._draw("again", "late event", "stream cut", "half an event"):
                case "again":
                    yield from before[-1:]
                case "late event":
                    time.sleep(_LATE_SECONDS)
                case "stream cut":
                    return
                case "half an event":
                    yield b'{"type": "MODIFIED", "object": {"metadata": {"na'
                    return
            if self.is_down:
                return
            yield line
            before.append(line)

    def _draw(self, *kinds: str) -> str:
        with self._lock:
            kind = self._chance.choice(kinds) if self._chance.random() < self.rate else ""
            if kind:
                self.counts[kind] = self.counts.get(kind, 0) + 1
        return kind

    def _choose(self, options: tuple[tuple[int, str], ...]) -> tuple[int, str]:
        with self._lock:
            return self._chance.choice(options)
