"""A portal's jobs, asked over its JSON API. Blocking; standard library only.

Which token goes to which portal is kept in `portals.json` of the home (0600). A token is sent to the portal that it was
given for and to no other, and never where others could read it on the way, unless its user has said so.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from tony.core.events import EVENTS, Event
from tony.dataclass import dataclass, field
from tony.errors import ConnectionFailed, InfraError, RecordError, StorageError, TonyError, UnknownJobError, UserError
from tony.history.json_files import read_json, write_json
from tony.model.codec import DecodeError, Json, from_plain, to_plain
from tony.model.job_query import MOST
from tony.model.job_report import JobReport
from tony.model.job_summary import JobHead
from tony.model.json_text import loads
from tony.model.layout import Home
from tony.model.progress import JobProgress
from tony.protocol.messages import Stacks

T = TypeVar("T")
#: Seconds to get a connection, and until an answer has begun.
_PATIENCE = 30.0
#: The same where a program is asked: the portal waits for it as well.
_STACKS = 100.0
#: Bytes of an answer: a report of 10,000 tasks has some four million.
_LONGEST = 256 << 20
#: Events that are asked for at one time.
_EVENTS = 5000
#: What a portal's API begins with.
_API = "api/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptToken:
    """A token of ours.

    Attributes:
        portal: the address that it is for.
        without_tls: it may be sent where others could read it.
    """

    portal: str
    user: str
    token: str = field(repr=False)
    without_tls: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLog:
    """One log that a portal has of a task; `size` in bytes."""

    name: str
    task: str
    session: int
    try_: int
    stream: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _EventLine:
    """What counts of an event as a portal tells it."""

    seq: int
    event: str
    data: Json


def address_of(text: str) -> str:
    """A portal's address in its one form: `https://jobs.example.org`, `http://127.0.0.1:8600/prefix`.

    Raises:
        UserError: it is none.
    """
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or "@" in parts.netloc:
        raise UserError(f"--portal {text}: write its address: http://127.0.0.1:8600, https://jobs.example.org")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{host}{'' if port in (None, usual) else f':{port}'}{parts.path.rstrip('/')}"


def is_private(address: str) -> bool:
    """Whether nobody on the way can read what is sent there."""
    parts = urlsplit(address)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


# --- tokens of ours ---------------------------------------------------------------------------------------------------


def kept_tokens(home: Home) -> tuple[KeptToken, ...]:
    """Those with which we have logged in.

    Raises:
        RecordError: the file is not what it should be.
    """
    path = home.path / "portals.json"
    try:
        return from_plain(tuple[KeptToken, ...], read_json(path) or [], ignore_unknown=True)
    except DecodeError as error:
        raise RecordError(f"{path} is not what it should be: {error}. Remove it, and log in again.") from error


def keep_token(home: Home, token: KeptToken | None, portal: str) -> None:
    """Keeps a token for a portal, instead of an earlier one; None: none any more.

    Raises:
        StorageError: it cannot be written.
    """
    try:
        home.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make {home.path}: {error.strerror}") from error
    others = [each for each in kept_tokens(home) if each.portal != portal]
    write_json(home.path / "portals.json", [to_plain(each) for each in (*others, *([token] if token else []))])


# --- asking -----------------------------------------------------------------------------------------------------------


class PortalClient:
    """One portal.

    Args:
        address: as `address_of` has it.
        token: of ours for it; None where none is needed.
    """

    def __init__(self, address: str, token: KeptToken | None = None) -> None:
        self.address = address
        self._token = token
        self._connection: http.client.HTTPConnection | None = None

    @classmethod
    def of(cls, home: Home, text: str) -> PortalClient:
        """The one that somebody names, with the token that we have for it.

        Raises:
            UserError: that is no address.
        """
        address = address_of(text)
        return cls(address, next((each for each in kept_tokens(home) if each.portal == address), None))

    def close(self) -> None:
        """Ends the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def me(self) -> Mapping[str, Json]:
        """Who we are there. Raises as `get`."""
        found = self.get("me")
        return found if isinstance(found, Mapping) else {}

    def jobs(self, words: Mapping[str, str], takes: Callable[[JobHead], bool], most: int) -> Iterator[JobHead]:
        """Jobs, newest first, so many at most.

        Args:
            words: of the query.
            takes: what the portal cannot be asked for. Raises as `get`.
        """
        after, left = "", most
        while left > 0:
            here = {"most": str(min(MOST, max(left, 50))), **({"after": after} if after else {})}
            page = self.get("jobs", {**words, **here})
            for head in self._read(tuple[JobHead, ...], page.get("jobs")):
                if takes(head) and left > 0:
                    left -= 1
                    yield head
            after = str(page.get("next") or "")
            if not after:
                return

    def resolve(self, text: str) -> str:
        """The id that `text` means: a whole one, a part that no other has, or `last`: the newest of ours.

        Raises:
            UnknownJobError: none, or several. Otherwise as `get`.
        """
        if text == "last":
            found = [*self.jobs({"user": str(self.me().get("user", ""))}, lambda head: True, 1)]
            if not found:
                raise UnknownJobError(f"{self.address} has no job of yours.")
            return found[0].job
        try:
            self.get(f"jobs/{quote(text, safe='')}", {"tasks": "no"})
        except UnknownJobError:
            matches = [head.job for head in self.jobs({"text": text}, lambda head: text in head.job, 4)]
            if len(matches) == 1:
                return matches[0]
            if matches:
                several = f"several jobs match {text!r}: {', '.join(matches[:3])}. Write more of the id."
                raise UnknownJobError(several) from None
            raise UnknownJobError(f"{self.address} has no job {text!r}, or you may not see it.") from None
        return text

    def report(self, job: str, *, tasks: bool = True) -> JobReport:
        """How a job stands, with its tasks or without. Raises as `get`."""
        words = {} if tasks else {"tasks": "no"}
        return self._read(JobReport, self.get(f"jobs/{quote(job, safe='')}", words))

    def events(self, job: str, kinds: Sequence[type[Event]]) -> Iterator[Event]:
        """What happened to a job, of some kinds, in order; what makes no sense is left out. Raises as `get`."""
        words = {"kind": ",".join(kind.kind for kind in kinds), "most": str(_EVENTS)}
        after, full = 0, True
        while full:
            page = self.get(f"jobs/{quote(job, safe='')}/events", {**words, "after": str(after)})
            lines = self._read(tuple[_EventLine, ...], page.get("events"))
            for line in lines:
                with contextlib.suppress(DecodeError, KeyError):
                    yield from_plain(EVENTS[line.event], line.data, ignore_unknown=True)
            full = len(lines) == _EVENTS and lines[-1].seq > after
            after = lines[-1].seq if lines else after

    def job_progress(self, job: str) -> JobProgress | None:
        """Return how far a job is; None if its programs have reported no step. Raises as `get`."""
        found = self.get(f"jobs/{quote(job, safe='')}/metrics").get("job_progress")
        return None if found is None else self._read(JobProgress, found)

    def advice(self, job: str) -> Mapping[str, Json]:
        """What the portal says could be better about a job. Raises as `get`."""
        found: Mapping[str, Json] = self.get(f"jobs/{quote(job, safe='')}/advice")
        return found

    def change(self, job: str, what: str, words: Mapping[str, str] | None = None, patience: float = _PATIENCE) -> Any:
        """Has something done to a job, or its programs asked; never twice. Raises as `get`.

        Args:
            what: the last part of its address in the API: `restart`.
            patience: seconds until an answer has begun.
        """
        # Who comes without a token of their own is known by the process, and asks for the page's as a page would.
        token = "" if self._token is not None else str(self.me().get("page_token") or "")
        body = json.dumps({"token": token}).encode() if token else b""
        status, answer = self._ask(f"jobs/{quote(job, safe='')}/{what}", words or {}, body, patience)
        found = _plain(answer)
        if status == 200 and isinstance(found, dict):
            return found
        raise self._error(status, found)

    def stacks(self, job: str, task: str) -> Stacks:
        """Where the program of a task stands. Raises as `get`; `InfraError` also if nothing can be told."""
        return self._read(Stacks, self.change(job, "stacks", {"task": task}, _STACKS))

    def logs(self, job: str, task: str) -> tuple[tuple[RemoteLog, ...], str]:
        """What there is of a task, and what is missing, for people; mostly nothing. Raises as `get`."""
        found = self.get(f"jobs/{quote(job, safe='')}/logs", {"task": task})
        missing = found.get("missing")
        return self._read(tuple[RemoteLog, ...], found.get("logs")), missing if isinstance(missing, str) else ""

    def log_bytes(self, job: str, name: str, offset: int, most: int) -> bytes:
        """A piece of a log; empty at its end. Raises as `get`."""
        path = f"jobs/{quote(job, safe='')}/logs/{quote(name, safe='')}/bytes"
        status, body = self._ask(path, {"offset": str(offset), "most": str(most)})
        if status != 200:
            raise self._error(status, _plain(body))
        return body

    def get(self, path: str, words: Mapping[str, str] | None = None) -> Any:
        """An answer.

        Raises:
            UnknownJobError: there is no such job there.
            UserError: the portal does not let us in, or finds a mistake.
            ConnectionFailed: it cannot be reached.
            InfraError: it fails.
        """
        status, body = self._ask(path, words or {})
        found = _plain(body)
        if status == 200 and isinstance(found, dict):
            return found
        raise self._error(status, found)

    def _ask(
        self, path: str, words: Mapping[str, str], change: bytes | None = None, patience: float = _PATIENCE
    ) -> tuple[int, bytes]:
        """Status and body of an answer; with `change`, the body of a request that changes something."""
        target = f"{urlsplit(self.address).path}/{_API}/{path}" + (f"?{urlencode(words)}" if words else "")
        headers = {"Accept": "application/json", "User-Agent": "tony"}
        if self._token is not None:
            if not is_private(self.address) and not self._token.without_tls:
                raise UserError(
                    f"{self.address} is not https: others could read your token on its way. "
                    f"If that may be: tony login --without-tls --portal {self.address}"
                )
            headers["Authorization"] = f"Bearer {self._token.token}"
        if change is not None:
            self.close()  # a kept connection may have been ended meanwhile, and this is not asked for again
            headers["Content-Type"] = "application/json"
        for again in (True, False):
            fresh = self._connection is None
            try:
                connection = self._connection = self._connection or self._connect(patience)
                connection.request("GET" if change is None else "PUT", target, change, headers)
                response = connection.getresponse()
                body = response.read(_LONGEST + 1)
                if len(body) > _LONGEST:
                    self.close()
                    raise InfraError(f"{self.address} answers with more than {_LONGEST >> 20} MiB.")
                return response.status, body
            except (OSError, http.client.HTTPException) as error:
                self.close()
                # A kept connection may have been ended meanwhile; what is asked again changes nothing.
                if fresh or not again:
                    raise ConnectionFailed(f"{self.address} cannot be reached: {_said(error, patience)}") from error
        raise AssertionError

    def _connect(self, patience: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.address)
        host = parts.hostname or ""
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, parts.port, timeout=patience, context=context)
        return http.client.HTTPConnection(host, parts.port, timeout=patience)

    def _error(self, status: int, found: object) -> TonyError:
        facts = found.get("error") if isinstance(found, dict) else None
        if not isinstance(facts, dict):
            return InfraError(f"{self.address} answers with HTTP {status}, not as a portal does.")
        said = " ".join(str(facts.get(key) or "") for key in ("message", "advice")).strip()
        if status == 401:
            return UserError(f"{self.address}: {said} Then: tony login --portal {self.address}")
        if facts.get("code") == "no-job":
            return UnknownJobError(f"{self.address}: {said}")
        if status < 500:
            return UserError(f"{self.address}: {said}")
        return InfraError(f"{self.address}: {said}")

    def _read(self, cls: type[T], data: Json) -> T:
        try:
            return from_plain(cls, data, ignore_unknown=True)
        except DecodeError as error:
            raise InfraError(f"{self.address} answers what makes no sense: {error}") from error


def _plain(body: bytes) -> object:
    try:
        return loads(body)
    except ValueError:
        return None


def _said(error: Exception, patience: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {patience:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted here: {error.verify_message}. Who vouches for it: SSL_CERT_FILE=ca.pem"
    if isinstance(error, socket.gaierror):
        return "no machine has that name"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
