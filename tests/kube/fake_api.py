"""An API server in memory: objects with names, uids, versions and labels; enough for what tony asks."""

from __future__ import annotations

import copy
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.kube.scripted_server import Answer, Request

Object = dict[str, Any]


def refuse(status: int, reason: str, message: str = "") -> Answer:
    return Answer(
        status=status, body={"kind": "Status", "code": status, "reason": reason, "message": message or reason}
    )


class FakeApi:
    """Answers requests; give `answer` to a `ScriptedServer`.

    Attributes:
        objects: by path of their kind and their name.
        now: the server's clock.
        on_pod: called with each pod that was created, and with each that is to be deleted; None: pods are only objects.
        optional: group of the API -> version -> kinds that this server has, and others have not.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.now = 1_800_000_000.0
        self.on_pod: Callable[[Object], None] | None = None
        self.optional: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
        self._versions = itertools.count(1)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._events: list[tuple[int, str, Object]] = []
        self._is_closed = False

    def close(self) -> None:
        """End all watches."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def update(self, path: str, name: str, patch: Object) -> None:
        """Change an object, as a component of the cluster does."""
        with self._changed:
            if found := self.objects.get((path, name)):
                _merge(found, patch)
                self._note("MODIFIED", path, found)

    def remove(self, path: str, name: str) -> None:
        """Remove an object, as a component of the cluster does."""
        with self._changed:
            if found := self.objects.get((path, name)):
                self._remove(path, name, found)

    def list_names(self, plural: str) -> list[str]:
        """Return the names of all objects of a kind."""
        return sorted(name for (path, name) in self.objects if path.endswith(f"/{plural}"))

    def answer(self, request: Request) -> Answer:
        parts = urlsplit(request.target)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if parts.path.startswith("/apis/") and len(parts.path.split("/")) < 5:
            return self._discover(*parts.path.split("/")[2:])
        path, name = _split(parts.path)
        with self._lock:
            if request.method == "POST":
                return self._create(path, request.body, is_dry="dryRun" in query)
            if request.method == "GET" and "watch" in query:
                return Answer(lines=self._watch(path, query, int(query["resourceVersion"])))
            if request.method == "GET" and not name:
                return self._list(path, query, metadata_only="PartialObjectMetadata" in request.headers["Accept"])
            if request.method == "DELETE" and not name:
                for each in self._select(path, query):
                    self._delete(path, each["metadata"]["name"], each)
                return Answer(body={"kind": "Status", "status": "Success"})
            found = self.objects.get((path, name))
            if found is None:
                return refuse(404, "NotFound", f'{path} "{name}" not found')
            if request.method == "GET":
                return Answer(body=found)
            if request.method == "DELETE":
                preconditions = (request.body or {}).get("preconditions") or {}
                if any(found["metadata"][field] != value for field, value in preconditions.items()):
                    return refuse(409, "Conflict", f"{name}: precondition failed: {preconditions}")
                self._delete(path, name, found)
                return Answer(body={"kind": "Status", "status": "Success"})
            if found.get("immutable") and {"data", "binaryData"} & request.body.keys():
                return refuse(422, "Invalid", f"{name}: field is immutable when `immutable` is set")
            _merge(found, request.body)
            self._note("MODIFIED", path, found)
            return Answer(body=found)

    def _discover(self, group: str, version: str = "") -> Answer:
        """Answer what versions a group of the API has, or what kinds a version has."""
        versions = self.optional.get(group, {})
        if not versions or version not in ("", *versions):
            return refuse(404, "NotFound", "the server could not find the requested resource")
        if version:
            return Answer(body={"resources": [{"name": plural} for plural in versions[version]]})
        return Answer(body={"name": group, "versions": [{"version": each} for each in versions]})

    def _create(self, path: str, body: Object, *, is_dry: bool) -> Answer:
        name = body["metadata"]["name"]
        if (path, name) in self.objects:
            return refuse(409, "AlreadyExists", f'{path} "{name}" already exists')
        version = str(next(self._versions))
        created = copy.deepcopy(body)
        created_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.now))
        created["metadata"] |= {"uid": f"uid-{version}", "resourceVersion": version, "creationTimestamp": created_at}
        if not is_dry:
            self.objects[path, name] = created
            self._note("ADDED", path, created)
            if self.on_pod and path.endswith("/pods"):
                self.on_pod(copy.deepcopy(created))
        return Answer(status=201, body=created)

    def _delete(self, path: str, name: str, found: Object) -> None:
        if self.on_pod and path.endswith("/pods"):
            found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self._note("MODIFIED", path, found)
            self.on_pod(copy.deepcopy(found))
        else:
            self._remove(path, name, found)

    def _remove(self, path: str, name: str, found: Object) -> None:
        """Remove an object, and delete what it owns."""
        del self.objects[path, name]
        self._note("DELETED", path, found)
        uid = found["metadata"].get("uid")
        for (place, other), each in list(self.objects.items()):
            if any(owner["uid"] == uid for owner in each["metadata"].get("ownerReferences") or ()):
                self._delete(place, other, each)

    def _note(self, kind: str, path: str, changed: Object) -> None:
        version = next(self._versions)
        changed["metadata"]["resourceVersion"] = str(version)
        self._events.append((version, path, {"type": kind, "object": copy.deepcopy(changed)}))
        self._changed.notify_all()

    def _watch(self, path: str, query: dict[str, str], version: int) -> Iterator[Object]:
        """Yield changes after a version until the API is closed."""
        labels = _parse_labels(query)
        while True:
            with self._changed:
                new = [(number, event) for number, place, event in self._events if number > version and place == path]
                if self._is_closed:
                    return
                if not new:
                    self._changed.wait()
                    continue
            for number, event in new:
                version = number
                if labels <= (event["object"]["metadata"].get("labels") or {}).items():
                    yield event

    def _list(self, path: str, query: dict[str, str], *, metadata_only: bool) -> Answer:
        found = self._select(path, query)
        items = [{"metadata": each["metadata"]} for each in found] if metadata_only else found
        return Answer(body={"metadata": {"resourceVersion": str(next(self._versions))}, "items": copy.deepcopy(items)})

    def _select(self, path: str, query: dict[str, str]) -> list[Object]:
        labels = _parse_labels(query)
        name = query.get("fieldSelector", "").removeprefix("metadata.name=")
        return [
            each
            for (place, own), each in sorted(self.objects.items())
            if place == path and name in ("", own) and labels <= (each["metadata"].get("labels") or {}).items()
        ]


def _parse_labels(query: dict[str, str]) -> set[tuple[str, str]]:
    pairs = (pair.partition("=") for pair in query.get("labelSelector", "").split(",") if pair)
    return {(name, value) for name, _, value in pairs}


def _split(path: str) -> tuple[str, str]:
    """Return the path of a kind, and the name of an object if there is one."""
    parts = path.split("/")
    is_namespaced = "namespaces" in parts[:5] and len(parts) > 5 + (parts[1] == "apis")
    length = (3 if parts[1] == "api" else 4) + 2 * is_namespaced
    return "/".join(parts[: length + 1]), unquote(parts[length + 1]) if len(parts) > length + 1 else ""


def _merge(target: Object, patch: Object) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value
