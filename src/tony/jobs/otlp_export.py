"""Sends traces to a collector of OpenTelemetry, over HTTP in JSON: every collector takes that, without a library."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping

from tony.dataclass import dataclass
from tony.errors import ConnectionFailed, InfraError, UserError
from tony.model.codec import Json

#: Where collectors take traces.
PATH = "/v1/traces"
#: Environment variables of every exporter: where to, and with which headers (`name=value,name=value`).
ENDPOINT, HEADERS = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"
#: Seconds that one request may take; tries of it; seconds before the second of them, which double; and at most.
_PATIENCE, _TRIES, _PAUSE, _LONGEST = 30.0, 4, 0.5, 30.0
#: What a collector says that wants to be asked again.
_LATER = {429, 502, 503, 504}
#: Bytes of an answer that are read.
_ANSWER = 64 << 10


class _Stays(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: headers may be keys, and are meant for the one place."""

    def redirect_request(self, *_: object) -> None:
        """Whoever sends us elsewhere has refused."""
        return


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of it.

    Attributes:
        spans: how many were sent; rejected: of these, those that the collector did not want.
        message: what it said; may be empty.
    """

    spans: int
    rejected: int
    message: str


def address(url: str) -> str:
    """Where to send traces, of what somebody wrote.

    Raises:
        UserError: it is no address.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = None
    if not known:
        raise UserError(f"{url!r:.200} is no address of a collector; write http://host:4318, or https://...")
    path = parts.path.rstrip("/")
    return urllib.parse.urlunsplit(parts._replace(path=path if path.endswith(PATH) else path + PATH, fragment=""))


def headers_of(text: str) -> dict[str, str]:
    """Reads `name=value,name=value`; values are written as in an address, `%20`.

    Raises:
        UserError: it is not that. Says nothing of the values: they may be secrets.
    """
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = part.partition("=")
        value = urllib.parse.unquote(value.strip())
        sound = name.strip().isascii() and name.strip().replace("-", "").replace("_", "").isalnum()
        if not equals or not sound or not value.isprintable():
            raise UserError("headers are written name=value,name=value")
        found[name.strip()] = value
    return found


def send(
    url: str,
    bodies: Iterable[Json],
    headers: Mapping[str, str] | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Sent:
    """Sends requests, one after the other; one that the collector cannot take now is sent again.

    Args:
        url: of `address`.

    Raises:
        ConnectionFailed: nobody answers.
        InfraError: the collector refuses.
    """
    spans = rejected = 0
    message = ""
    for body in bodies:
        data = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
        answer = _send(url, data, headers or {}, pause)
        spans += sum(len(scope["spans"]) for each in body["resourceSpans"] for scope in each["scopeSpans"])
        less, said = _partial(answer)
        rejected, message = rejected + less, said or message
    return Sent(spans, rejected, message)


def _send(url: str, data: bytes, headers: Mapping[str, str], pause: Callable[[float], None]) -> bytes:
    wait = _PAUSE
    opener = urllib.request.build_opener(_Stays)
    for left in range(_TRIES - 1, -1, -1):
        request = urllib.request.Request(url, data, {**headers, "Content-Type": "application/json"}, method="POST")
        try:
            with opener.open(request, timeout=_PATIENCE) as answer:
                return bytes(answer.read(_ANSWER))
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _LATER or not left:
                    raise InfraError(f"the collector at {url} refused the trace: {_said(error)}") from None
                wait = max(wait, _seconds(error.headers.get("Retry-After", "")))
        except (OSError, http.client.HTTPException) as error:
            if not left:
                reason = getattr(error, "reason", None) or error
                raise ConnectionFailed(f"no collector answers at {url}: {reason}") from None
        pause(min(wait, _LONGEST))
        wait *= 2
    raise AssertionError("the last try answers or raises")


def _said(error: urllib.error.HTTPError) -> str:
    text = error.read(500).decode("utf-8", "replace").strip()
    readable = "".join(char if char.isprintable() else " " for char in text)
    return f"HTTP {error.code}{f', {readable[:200]}' if readable else ''}"


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0.0


def _partial(answer: bytes) -> tuple[int, str]:
    """How many spans a collector did not want, and why."""
    try:
        found = json.loads(answer or b"{}").get("partialSuccess") or {}
        return int(found.get("rejectedSpans") or 0), str(found.get("errorMessage") or "")[:200]
    except (ValueError, AttributeError, TypeError):
        return 0, ""
