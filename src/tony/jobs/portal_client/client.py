"""Client of a portal's JSON API. Blocking; standard library only.

A token (`known_portals`) is sent only to the portal that it was issued by, and never unencrypted over a network, unless
the user has allowed that.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from tony.core.events import EVENTS, Event
from tony.errors import ConnectionFailedError, InfraError, TonyError, UnknownJobError, UserError
from tony.jobs.log_files import LogFileInfo
from tony.jobs.portal_client.known_portals import KeptToken, is_private, load_stored_token, normalize_address
from tony.model.codec import DecodeError, Json, from_plain
from tony.model.job_query import MAX_PAGE_JOBS
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead
from tony.model.progress import JobProgress
from tony.model.state_directory import Home
from tony.model.strict_json import loads
from tony.protocol.shared_messages import Stacks

T = TypeVar("T")
#: Seconds to connect, and until a response begins.
_TIMEOUT_SECONDS = 30.0
#: The same for stack traces, for which the portal itself waits.
_STACKS_TIMEOUT_SECONDS = 100.0
#: Maximum bytes of a response: a report of 10,000 tasks has some four million.
_MAX_ANSWER_BYTES = 256 << 20
#: Events per request.
_EVENTS_PER_REQUEST = 5000
#: Latest time of a line: the year 9999, in hundredths of a second since 1970.
_MAX_MOMENT = 25_340_230_079_900
#: Path prefix of a portal's API.
_API = "api/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class _EventLine:
    """The parts of a portal's event entry that are used here."""

    seq: int
    event: str
    data: Json


class PortalClient:
    """Client of one portal. Several threads may use it: each request has a connection of its own, which is kept.

    Args:
        address: as returned by `normalize_address`.
        token: a saved login; None if the portal needs none.
    """

    def __init__(self, address: str, token: KeptToken | None = None) -> None:
        self.address = address
        self._token = token
        self._idle: list[http.client.HTTPConnection] = []

    @classmethod
    def from_address(cls, home: Home, text: str) -> PortalClient:
        """Return a client for an address, with the saved token if there is one.

        Raises:
            UserError: the address is invalid.
        """
        address = normalize_address(text)
        return cls(address, load_stored_token(home, address))

    def close(self) -> None:
        """Close the connections that no request uses; the next request opens a new one."""
        while self._idle:
            self._idle.pop().close()

    def fetch_user(self) -> Mapping[str, Json]:
        """Return the authenticated user. Raises as `get`."""
        found = self.get("me")
        return found if isinstance(found, Mapping) else {}

    def iterate_jobs(self, words: Mapping[str, str], takes: Callable[[JobHead], bool], most: int) -> Iterator[JobHead]:
        """Yield jobs, newest first, at most `most`. Raises as `get`.

        Args:
            words: query parameters.
            takes: additional filter, for what the API cannot filter by.
        """
        after, left = "", most
        while left > 0:
            page_words = {"most": str(min(MAX_PAGE_JOBS, max(left, 50))), **({"after": after} if after else {})}
            page = self.get("jobs", {**words, **page_words})
            for head in self._decode(tuple[JobHead, ...], page.get("jobs")):
                if takes(head) and left > 0:
                    left -= 1
                    yield head
            after = str(page.get("next") or "")
            if not after:
                return

    def resolve(self, text: str) -> str:
        """Resolve `text` to a job id: a whole id, a name that one job has, a unique part of an id, or `last` for the
        user's newest job.

        Raises:
            UnknownJobError: no job matches, or several do. Otherwise as `get`.
        """
        if text == "last":
            found = [*self.iterate_jobs({"user": str(self.fetch_user().get("user", ""))}, lambda head: True, 1)]
            if not found:
                raise UnknownJobError(f"{self.address} has no job of yours")
            return found[0].job
        try:
            self.get(f"jobs/{quote(text, safe='')}", {"tasks": "no"})
        except UnknownJobError:
            named = [head.job for head in self.iterate_jobs({"text": text}, lambda head: head.name == text, 6)]
            if len(named) == 1:
                return named[0]
            if named:
                several = f"{text!r} is the name of several jobs: {', '.join(named[:5])}. Write the id of the job."
                raise UnknownJobError(several) from None
            matches = [head.job for head in self.iterate_jobs({"text": text}, lambda head: text in head.job, 4)]
            if len(matches) == 1:
                return matches[0]
            if matches:
                several = f"several jobs match {text!r}: {', '.join(matches[:3])}. Write more of the id."
                raise UnknownJobError(several) from None
            raise UnknownJobError(f"{self.address} has no job {text!r}, or you may not see it") from None
        return text

    def fetch_report(self, job: str, *, tasks: bool = True) -> JobReport:
        """Return a job's status, with or without its tasks. Raises as `get`."""
        words = {} if tasks else {"tasks": "no"}
        return self._decode(JobReport, self.get(f"jobs/{quote(job, safe='')}", words))

    def iterate_events(self, job: str, kinds: Sequence[type[Event]]) -> Iterator[Event]:
        """Yield a job's events of some kinds, in order; invalid ones are skipped. Raises as `get`."""
        words = {"kind": ",".join(kind.kind for kind in kinds), "most": str(_EVENTS_PER_REQUEST)}
        after, full = 0, True
        while full:
            page = self.get(f"jobs/{quote(job, safe='')}/events", {**words, "after": str(after)})
            lines = self._decode(tuple[_EventLine, ...], page.get("events"))
            for line in lines:
                with contextlib.suppress(DecodeError, KeyError):
                    yield from_plain(EVENTS[line.event], line.data, ignore_unknown=True)
            full = len(lines) == _EVENTS_PER_REQUEST and lines[-1].seq > after
            after = lines[-1].seq if lines else after

    def fetch_progress(self, job: str) -> JobProgress | None:
        """Return a job's progress; None if its programs have reported no step. Raises as `get`."""
        found = self.get(f"jobs/{quote(job, safe='')}/metrics").get("job_progress")
        return None if found is None else self._decode(JobProgress, found)

    def fetch_advice(self, job: str) -> Mapping[str, Json]:
        """Return the portal's recommendations for a job. Raises as `get`."""
        found: Mapping[str, Json] = self.get(f"jobs/{quote(job, safe='')}/advice")
        return found

    def change(
        self, job: str, what: str, words: Mapping[str, str] | None = None, timeout: float = _TIMEOUT_SECONDS
    ) -> Any:
        """Send a command for a job, without retries. Raises as `get`.

        Args:
            what: the last part of its path in the API: `restart`.
            timeout: seconds until the response begins.
        """
        # Without a token of its own a client is identified by its process, and needs the CSRF token as a page does.
        token = "" if self._token is not None else str(self.fetch_user().get("page_token") or "")
        body = json.dumps({"token": token}).encode() if token else b""
        status, answer = self._send_request(f"jobs/{quote(job, safe='')}/{what}", words or {}, body, timeout)
        found = _decode_json(answer)
        if status == 200 and isinstance(found, dict):
            return found
        raise self._build_error(status, found)

    def fetch_stacks(self, job: str, task: str) -> Stacks:
        """Return the stack traces of a task. Raises as `get`; `InfraError` also if there are none."""
        return self._decode(Stacks, self.change(job, "stacks", {"task": task}, _STACKS_TIMEOUT_SECONDS))

    def fetch_logs(self, job: str, task: str) -> tuple[tuple[LogFileInfo, ...], str]:
        """Return the logs of a task, and what is missing and why (usually empty). Raises as `get`."""
        found = self.get(f"jobs/{quote(job, safe='')}/logs", {"task": task})
        missing = found.get("missing")
        return self._decode(tuple[LogFileInfo, ...], found.get("logs")), missing if isinstance(missing, str) else ""

    def fetch_log_bytes(self, job: str, name: str, offset: int, most: int) -> bytes:
        """Return a piece of a log; empty at its end. Raises as `get`."""
        path = f"jobs/{quote(job, safe='')}/logs/{quote(name, safe='')}/bytes"
        status, body = self._send_request(path, {"offset": str(offset), "most": str(most)})
        if status != 200:
            raise self._build_error(status, _decode_json(body))
        return body

    def fetch_log_times(self, job: str, name: str, offset: int, most: int) -> Sequence[tuple[int, int]]:
        """Return offsets in a piece of a log and when they were printed, as `read_times` does. Raises as `get`."""
        path = f"jobs/{quote(job, safe='')}/logs/{quote(name, safe='')}/times"
        found = self.get(path, {"offset": str(offset), "most": str(most)}).get("times")
        times = self._decode(tuple[tuple[int, int], ...], found)
        return [(place - offset, moment) for place, moment in times if 0 < moment < _MAX_MOMENT]

    def get(self, path: str, words: Mapping[str, str] | None = None) -> Any:
        """Send a GET request and return the decoded response.

        Raises:
            UnknownJobError: the portal has no such job.
            UserError: the portal denies access, or the request is invalid.
            ConnectionFailedError: the portal cannot be reached.
            InfraError: the portal fails.
        """
        status, body = self._send_request(path, words or {})
        found = _decode_json(body)
        if status == 200 and isinstance(found, dict):
            return found
        raise self._build_error(status, found)

    def _send_request(
        self, path: str, words: Mapping[str, str], change: bytes | None = None, timeout: float = _TIMEOUT_SECONDS
    ) -> tuple[int, bytes]:
        """Return status and body of a response; `change` is the body of a PUT request."""
        target = f"{urlsplit(self.address).path}/{_API}/{path}" + (f"?{urlencode(words)}" if words else "")
        headers = {"Accept": "application/json", "User-Agent": "tony"}
        if self._token is not None:
            if not is_private(self.address) and not self._token.without_tls:
                raise UserError(
                    f"{self.address} is not https: your token could be read on the network. "
                    f"To allow that: tony login --without-tls --portal {self.address}"
                )
            headers["Authorization"] = f"Bearer {self._token.token}"
        if change is not None:
            headers["Content-Type"] = "application/json"
        while True:
            # A kept connection may have been closed meanwhile; only requests that change nothing are repeated.
            kept = self._take_idle() if change is None else None
            connection = kept or self._connect(timeout)
            try:
                connection.request("GET" if change is None else "PUT", target, change, headers)
                response = connection.getresponse()
                body = response.read(_MAX_ANSWER_BYTES + 1)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if kept is None:
                    raise ConnectionFailedError(
                        f"{self.address} cannot be reached: {_describe_error(error, timeout)}"
                    ) from error
                continue
            if len(body) > _MAX_ANSWER_BYTES:
                connection.close()
                raise InfraError(f"{self.address} sent more than {_MAX_ANSWER_BYTES >> 20} MiB")
            self._idle.append(connection)
            return response.status, body

    def _take_idle(self) -> http.client.HTTPConnection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.address)
        host = parts.hostname or ""
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=context)
        return http.client.HTTPConnection(host, parts.port, timeout=timeout)

    def _build_error(self, status: int, found: object) -> TonyError:
        facts = found.get("error") if isinstance(found, dict) else None
        if not isinstance(facts, dict):
            return InfraError(f"{self.address} answered with HTTP {status}; it does not seem to be a portal")
        text = " ".join(str(facts.get(key) or "") for key in ("message", "advice")).strip()
        if status == 401:
            return UserError(f"{self.address}: {text} Then: tony login --portal {self.address}")
        if facts.get("code") == "no-job":
            return UnknownJobError(f"{self.address}: {text}")
        if status < 500:
            return UserError(f"{self.address}: {text}")
        return InfraError(f"{self.address}: {text}")

    def _decode(self, cls: type[T], data: Json) -> T:
        try:
            return from_plain(cls, data, ignore_unknown=True)
        except DecodeError as error:
            raise InfraError(f"{self.address} sent an invalid response: {error}") from error


def _decode_json(body: bytes) -> object:
    try:
        return loads(body)
    except ValueError:
        return None


def _describe_error(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}. Trust its CA with SSL_CERT_FILE=ca.pem"
    if isinstance(error, socket.gaierror):
        return "host name not found"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
