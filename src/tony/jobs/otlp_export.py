"""Sends traces to an OpenTelemetry collector over HTTP with JSON, which every collector accepts."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tony.errors import ConnectionFailedError, InfraError, UserError
from tony.model.codec import Json
from tony.retry import Backoff

#: Path under which collectors accept traces.
PATH = "/v1/traces"
#: Standard environment variables of exporters; headers are written `name=value,name=value`.
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
_REQUEST_TIMEOUT_SECONDS = 30.0
_MAX_ATTEMPTS = 4
#: Between two attempts; longer if the collector says so, up to its maximum.
_PAUSES = Backoff(first=0.5, most=30.0)
#: HTTP status codes after which to retry.
_RETRY_STATUS = {429, 502, 503, 504}
#: Maximum bytes read of a response.
_MAX_ANSWER_BYTES = 64 << 10


class _RefuseRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the headers may contain keys, which are meant for one host only."""

    def redirect_request(self, *_: object) -> None:
        """Return None: treat a redirect as an error."""
        return


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of an export.

    Attributes:
        spans: number of spans sent.
        rejected: how many of these the collector rejected.
        message: the collector's explanation; may be empty.
    """

    spans: int
    rejected: int
    message: str


def build_traces_url(url: str) -> str:
    """Return the URL for traces of a collector's address.

    Raises:
        UserError: the address is invalid.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = None
    if not known:
        raise UserError(f"{url!r:.200} is not a collector address; use http://host:4318 or https://...")
    path = parts.path.rstrip("/")
    return urllib.parse.urlunsplit(parts._replace(path=path if path.endswith(PATH) else path + PATH, fragment=""))


def parse_headers(text: str) -> dict[str, str]:
    """Parse `name=value,name=value` with URL-encoded values (`%20`).

    Raises:
        UserError: the text is invalid. The message contains no values: they may be secrets.
    """
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = part.partition("=")
        value = urllib.parse.unquote(value.strip())
        is_valid_name = name.strip().isascii() and name.strip().replace("-", "").replace("_", "").isalnum()
        if not equals or not is_valid_name or not value.isprintable():
            raise UserError("headers must have the form name=value,name=value")
        found[name.strip()] = value
    return found


def send(
    url: str,
    bodies: Iterable[Json],
    headers: Mapping[str, str] | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Sent:
    """Send request bodies in order, retrying while the collector is overloaded or unreachable.

    Args:
        url: as returned by `address`.

    Raises:
        ConnectionFailedError: the collector does not answer.
        InfraError: the collector refuses the trace.
    """
    spans = rejected = 0
    message = ""
    for body in bodies:
        data = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
        answer = _send(url, data, headers or {}, pause)
        spans += sum(len(scope["spans"]) for each in body["resourceSpans"] for scope in each["scopeSpans"])
        less, text = _parse_partial_success(answer)
        rejected, message = rejected + less, text or message
    return Sent(spans, rejected, message)


def _send(url: str, data: bytes, headers: Mapping[str, str], pause: Callable[[float], None]) -> bytes:
    opener = urllib.request.build_opener(_RefuseRedirects)
    for attempt, wait in enumerate(_PAUSES, start=1):
        request = urllib.request.Request(url, data, {**headers, "Content-Type": "application/json"}, method="POST")
        try:
            with opener.open(request, timeout=_REQUEST_TIMEOUT_SECONDS) as answer:
                return bytes(answer.read(_MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _RETRY_STATUS or attempt == _MAX_ATTEMPTS:
                    raise InfraError(f"the collector at {url} refused the trace: {_describe_error(error)}") from None
            pause(min(max(wait, _parse_seconds(error.headers.get("Retry-After", ""))), _PAUSES.most))
        except (OSError, http.client.HTTPException) as error:
            if attempt == _MAX_ATTEMPTS:
                reason = getattr(error, "reason", None) or error
                raise ConnectionFailedError(f"no collector answers at {url}: {reason}") from None
            pause(wait)
    raise AssertionError("the last attempt returns or raises")


def _describe_error(error: urllib.error.HTTPError) -> str:
    text = error.read(500).decode("utf-8", "replace").strip()
    readable = "".join(char if char.isprintable() else " " for char in text)
    return f"HTTP {error.code}{f', {readable[:200]}' if readable else ''}"


def _parse_seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0.0


def _parse_partial_success(answer: bytes) -> tuple[int, str]:
    """Return the number of rejected spans, and the reason."""
    try:
        found = json.loads(answer or b"{}").get("partialSuccess") or {}
        return int(found.get("rejectedSpans") or 0), str(found.get("errorMessage") or "")[:200]
    except (ValueError, AttributeError, TypeError):
        return 0, ""
