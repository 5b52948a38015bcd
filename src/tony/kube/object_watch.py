"""Changes of objects of one kind, as they happen: a list, then a stream that is opened again when it ends.

Objects that were known and are missing in a later list are reported as deleted, of which nothing but the name is known.
Known are those that were listed, and those that the caller has created (`ObjectWatch.expect`): they may be created and
deleted while there is no stream. If both came before a list, and the answer to their creation after it, no stream
reports them: a caller that has not seen one for a while has the watch list again.

Sources: "Efficient detection of changes" in the API concepts of Kubernetes; that an answer with status 200 may be
empty although the version has expired: kubernetes/kubernetes#104171.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tony.kube.api_client import ApiClient, Object, ObjectList
from tony.kube.errors import AnswerLostError, KubeApiError, KubeError, build_api_error
from tony.kube.http_connection import ApiAnswer
from tony.kube.resources import ApiResource
from tony.retry import Backoff

#: Seconds after which the server ends a stream by itself.
_STREAM_SECONDS = 300.0
#: A stream that ends sooner than this without a change counts as failed: the version may have expired.
_SHORTEST_STREAM_SECONDS = 1.0
_MAX_EVENT_BYTES = 8 << 20
_BACKOFF = Backoff(first=0.2, most=10.0, jitter=0.5)


class Change(Enum):
    """What happened to an object."""

    PRESENT = "present"  #: it was listed, added or modified
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """A change of one object.

    Attributes:
        content: the object after the change, or before it was deleted; only its name if its deletion was not seen.
    """

    change: Change
    content: Object


class _ExpiredError(Exception):
    """The version from which the stream continued is no longer kept."""


class ObjectWatch:
    """Reports the changes of objects with certain labels. `run` blocks in a thread; `stop` ends it from any other.

    Args:
        on_change: called for each change, in order, in the thread of `run`.
        on_trouble: called with the error when the server cannot be reached, and with None when it answers again.
        trim: returns the part of an object that is reported; it has name and uid.
    """

    def __init__(
        self,
        client: ApiClient,
        resource: ApiResource,
        labels: Mapping[str, str],
        on_change: Callable[[ObjectChange], None],
        on_trouble: Callable[[KubeError | None], None],
        trim: Callable[[Object], Object] = lambda content: content,
    ) -> None:
        self._client, self._resource, self._labels, self._trim = client, resource, labels, trim
        self._on_change, self._on_trouble = on_change, on_trouble
        self._names: dict[str, str] = {}  # name -> uid: whole objects would take too much memory
        self._names_lock = threading.Lock()
        self._version = ""
        self._needs_list = threading.Event()
        self._stopped = threading.Event()
        self._stream: ApiAnswer | None = None
        self._pauses = iter(_BACKOFF)

    def expect(self, name: str) -> None:
        """Note that an object exists: if the next list does not have it, it was deleted. Call it from any thread."""
        with self._names_lock:
            self._names.setdefault(name, "")

    def list_again(self) -> None:
        """Read a list soon. Call it from any thread."""
        self._needs_list.set()
        if stream := self._stream:
            stream.interrupt()

    def note_list(self, found: ObjectList) -> None:
        """Continue from a list that the caller has read and trimmed; none is read first. Call it before `run`."""
        with self._names_lock:
            self._names |= {_get_name(each): _get_uid(each) for each in found.items}
        self._version = found.version

    def stop(self) -> None:
        """End `run`."""
        self._stopped.set()
        if stream := self._stream:
            stream.interrupt()

    def run(self) -> None:
        """Report changes until `stop` is called."""
        self._pauses = iter(_BACKOFF)
        while not self._stopped.is_set():
            try:
                if self._needs_list.is_set() or not self._version:
                    self._list()
                self._read_stream()
            except _ExpiredError:
                self._version = ""
                self._stopped.wait(next(self._pauses))
            except KubeError as error:
                if self._stopped.is_set():
                    return
                if self._needs_list.is_set() and self._version:
                    continue
                if isinstance(error, KubeApiError) and error.is_expired:
                    self._version = ""
                else:
                    self._on_trouble(error)
                self._stopped.wait(next(self._pauses))

    def _list(self) -> None:
        self._needs_list.clear()
        self._version = ""
        with self._names_lock:
            before = dict(self._names)
        found = self._client.list(self._resource, labels=self._labels, trim=self._trim)
        self._on_trouble(None)
        listed = {_get_name(each): _get_uid(each) for each in found.items}
        for name, uid in before.items():
            if name not in listed or uid not in ("", listed[name]):
                self._on_change(ObjectChange(Change.DELETED, {"metadata": {"name": name}}))
        for each in found.items:
            self._on_change(ObjectChange(Change.PRESENT, each))
        with self._names_lock:  # those that were expected meanwhile may be younger than the list
            kept = {name: uid for name, uid in self._names.items() if name not in before}
            self._names = kept | listed
        self._version = found.version

    def _read_stream(self) -> None:
        started_at = time.monotonic()
        stream = self._client.open_watch(
            self._resource, labels=self._labels, version=self._version, timeout=_STREAM_SECONDS
        )
        self._stream = stream
        self._on_trouble(None)
        is_empty = True
        try:
            while not (self._stopped.is_set() or self._needs_list.is_set()) and (
                line := stream.read_line(_MAX_EVENT_BYTES)
            ):
                self._take(line)
                self._pauses = iter(_BACKOFF)
                is_empty = False
        finally:
            self._stream = None
            stream.close()
        if is_empty and not self._needs_list.is_set() and time.monotonic() - started_at < _SHORTEST_STREAM_SECONDS:
            raise _ExpiredError

    def _take(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            kind, content = event["type"], event["object"]
            if kind == "ERROR":
                raise _build_stream_error(self._resource, content)
            version = content["metadata"]["resourceVersion"]
            uid = "" if kind == "BOOKMARK" else _get_uid(content)
        except (ValueError, LookupError, TypeError):
            raise AnswerLostError(f"watch {self._resource.plural}: the server sent {line[:100]!a}") from None
        if kind == "DELETED":
            with self._names_lock:
                self._names.pop(_get_name(content), None)
            self._on_change(ObjectChange(Change.DELETED, self._trim(content)))
        elif kind in ("ADDED", "MODIFIED"):
            with self._names_lock:
                self._names[_get_name(content)] = uid
            self._on_change(ObjectChange(Change.PRESENT, self._trim(content)))
        self._version = str(version)


def _build_stream_error(resource: ApiResource, content: Any) -> KubeApiError:
    code = content.get("code")
    return build_api_error(f"watch {resource.plural}", code if isinstance(code, int) else 500, content)


def _get_uid(content: Object) -> str:
    return str(content["metadata"]["uid"])


def _get_name(content: Object) -> str:
    return str(content["metadata"]["name"])
