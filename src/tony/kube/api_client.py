"""Requests to a Kubernetes API server. Blocking and thread-safe.

A request that the server did not take, because it is busy, is sent again after the pause that it asks for. One whose
answer is lost is sent again unless it creates something: the caller decides, since it may have been carried out.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from tony.kube.cluster_access import ClusterAccess
from tony.kube.errors import AnswerLostError, KubeApiError, KubeError, UnreachableError, build_api_error
from tony.kube.http_connection import ApiAnswer, ApiConnections
from tony.kube.resources import ApiResource
from tony.retry import Backoff

#: Decoded JSON of an object of the API.
Object = dict[str, Any]

#: Seconds without a byte from the server.
_TIMEOUT_SECONDS = 30.0
#: Objects in one answer to a list, and in all answers to one.
_PAGE_SIZE = 500
_MAX_OBJECTS = 50_000
_BACKOFF = Backoff(first=0.2, most=5.0, jitter=0.5)
#: Requests that do the same once or several times; changes are merged, and an object that is gone stays so.
_REPEATABLE = frozenset({"GET", "PATCH", "DELETE"})
#: Asks for lists without the contents of objects.
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
#: Longest pause that a server may ask for.
_MAX_PAUSE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ObjectList:
    """Objects of one kind.

    Attributes:
        items: the objects.
        version: the resource version from which a watch continues.
    """

    items: tuple[Object, ...]
    version: str


class ApiClient:
    """A client of one API server.

    Args:
        give_up_seconds: seconds for which a request is repeated while the server is busy or cannot be reached.

    Attributes:
        namespace: of requests that name none.
    """

    def __init__(self, access: ClusterAccess, *, give_up_seconds: float = 30.0) -> None:
        self.access = access
        self.namespace = access.namespace
        self._connections = ApiConnections(access)
        self._give_up_seconds = give_up_seconds

    def close(self) -> None:
        """Close idle connections."""
        self._connections.close()

    def get(self, resource: ApiResource, name: str) -> Object:
        """Return an object.

        Raises:
            KubeApiError: it does not exist (`is_missing`), or the server refused.
            KubeError: there is no answer; so in all methods.
        """
        path = resource.build_path(self.namespace, name)
        return self._request("GET", path, f"get {resource.plural}/{name}")

    def list(
        self,
        resource: ApiResource,
        *,
        labels: Mapping[str, str] | None = None,
        name: str = "",
        metadata_only: bool = False,
        trim: Callable[[Object], Object] | None = None,
    ) -> ObjectList:
        """Return all objects with these labels, page by page.

        Args:
            name: only the object of this name; unlike `get`, it needs the right to list.
            metadata_only: leave out all but the metadata of each object.
            trim: returns the part of an object to keep; whole objects of a long list take much memory.

        Raises:
            KubeError: there are too many.
        """
        what = f"list {resource.plural}"
        query = {"limit": str(_PAGE_SIZE), **_build_selector(labels)}
        if name:
            query["fieldSelector"] = f"metadata.name={name}"
        headers = {"Accept": _METADATA_LIST} if metadata_only else {}
        path = resource.build_path(self.namespace)
        items: list[Object] = []
        token = ""
        while True:
            page_query = {**query, "continue": token} if token else query
            try:
                page = self._request("GET", path, what, query=page_query, headers=headers)
            except KubeApiError as error:
                if not (token and error.is_expired):  # the pages are of a version that is no longer kept
                    raise
                items, token = [], ""
                continue
            found = page.pop("items", None) or ()
            items += map(trim, found) if trim else found
            if len(items) > _MAX_OBJECTS:
                raise KubeError(f"{what}: namespace {self.namespace} has more than {_MAX_OBJECTS:,} of them")
            metadata = page.get("metadata") or {}
            token = metadata.get("continue") or ""
            if not token:
                return ObjectList(tuple(items), str(metadata.get("resourceVersion", "")))

    def list_few(self, resource: ApiResource, limit: int) -> Sequence[Object]:
        """Return all objects of a kind; none if there are more than `limit`."""
        query = {"limit": str(limit)}
        page = self._request("GET", resource.build_path(self.namespace), f"list {resource.plural}", query=query)
        return () if (page.get("metadata") or {}).get("continue") else page.get("items") or ()

    def create(self, resource: ApiResource, body: Object, *, dry_run: bool = False) -> Object:
        """Create an object, and return it as the server completed it.

        Args:
            dry_run: only check whether it could be created; an unknown field is an error.
        """
        name = body.get("metadata", {}).get("name", "")
        what = f"{'check' if dry_run else 'create'} {resource.plural}{f'/{name}' if name else ''}"
        query = {"dryRun": "All", "fieldValidation": "Strict"} if dry_run else {}
        return self._request("POST", resource.build_path(self.namespace), what, query=query, body=body)

    def create_unique(self, resource: ApiResource, body: Object) -> Object:
        """Like `create`, for a name that no other client uses: sent again although an answer was lost."""
        give_up_at = time.monotonic() + self._give_up_seconds
        is_sent = False
        for pause in _BACKOFF:
            try:
                return self.create(resource, body)
            except KubeApiError as error:
                if is_sent and error.is_existing:
                    # Users may list all that they create, but not get pods.
                    found = self.list(resource, name=body["metadata"]["name"]).items
                    return found[0] if found else body
                if not error.is_transient or time.monotonic() + pause > give_up_at:
                    raise
            except AnswerLostError:
                if time.monotonic() + pause > give_up_at:
                    raise
            is_sent = True
            time.sleep(pause)
        raise AssertionError("delays have no end")

    def patch(self, resource: ApiResource, name: str, body: Object) -> Object:
        """Merge a change into an object, and return it."""
        headers = {"Content-Type": "application/merge-patch+json"}
        path = resource.build_path(self.namespace, name)
        return self._request("PATCH", path, f"patch {resource.plural}/{name}", body=body, headers=headers)

    def delete(self, resource: ApiResource, name: str, *, grace_seconds: int | None = None, uid: str = "") -> None:
        """Delete an object, and what it owns in the background. One that does not exist is no error.

        Args:
            grace_seconds: until a pod's programs are killed; None: what the pod says.
            uid: only the object with this uid, not another one of the same name.
        """
        options = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        self._delete(resource, name, {"uid": uid} if uid else {}, options)

    def delete_version(self, resource: ApiResource, metadata: Object) -> bool:
        """Delete an object, and what it owns in the background; return False if it was changed or replaced.

        Args:
            metadata: the object's, as they were read.
        """
        conditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        return self._delete(resource, str(metadata["name"]), conditions, {})

    def _delete(self, resource: ApiResource, name: str, conditions: Object, options: Object) -> bool:
        """Delete an object; return False if it does not meet the conditions."""
        preconditions = {"preconditions": conditions} if conditions else {}
        body = {"propagationPolicy": "Background", **options, **preconditions}
        try:
            self._request(
                "DELETE", resource.build_path(self.namespace, name), f"delete {resource.plural}/{name}", body=body
            )
        except KubeApiError as error:
            if not error.is_missing and not (conditions and error.is_conflict):
                raise
            return not error.is_conflict
        return True

    def delete_collection(self, resource: ApiResource, *, labels: Mapping[str, str]) -> None:
        """Delete all objects with these labels."""
        if not labels:
            raise ValueError("labels are needed: without them, everything in the namespace would be deleted")
        path = resource.build_path(self.namespace)
        options = {"propagationPolicy": "Background"}
        self._request("DELETE", path, f"delete {resource.plural}", query=_build_selector(labels), body=options)

    def find_version(self, group: str, plural: str, known: Sequence[str]) -> str | None:
        """Return the first of some versions of a group of the API that has a kind of object; None if none is served.

        Source: `APIGroup`, `APIResourceList` in k8s.io/apimachinery/pkg/apis/meta/v1/types.go.
        """
        try:
            found = self._request("GET", f"/apis/{group}", f"look for {group}")
        except KubeApiError as error:
            if error.is_missing:
                return None
            raise
        served = {each["version"] for each in found.get("versions") or ()}
        versions = (version for version in known if version in served)
        return next((version for version in versions if self._has_kind(f"/apis/{group}/{version}", plural)), None)

    def _has_kind(self, path: str, plural: str) -> bool:
        resources = self._request("GET", path, f"look for {plural}").get("resources") or ()
        return any(each.get("name") == plural for each in resources)

    def open_watch(
        self, resource: ApiResource, *, labels: Mapping[str, str] | None, version: str, timeout: float
    ) -> ApiAnswer:
        """Return the stream of changes since a resource version; see `object_watch`.

        Args:
            timeout: seconds after which the server ends it.
        """
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(int(timeout)),
            **_build_selector(labels),
        }
        target = f"{resource.build_path(self.namespace)}?{urlencode(query)}"
        return self._send("GET", target, f"watch {resource.plural}", None, {}, timeout=timeout + _TIMEOUT_SECONDS)

    def open_socket(self) -> tuple[socket.socket, Mapping[str, str]]:
        """Return a new connection to the API server, and the headers that authenticate a request on it."""
        return self._connections.open_socket()

    def _request(
        self,
        method: str,
        path: str,
        what: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Object:
        target = f"{path}?{urlencode(query)}" if query else path
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        sent = {"Content-Type": "application/json"} if data else {}
        give_up_at = time.monotonic() + self._give_up_seconds
        for pause in _BACKOFF:
            try:
                answer = self._send(method, target, what, data, {**sent, **(headers or {})}).read_json()
            except KubeApiError as error:
                wait = pause if error.retry_after is None else min(error.retry_after, _MAX_PAUSE_SECONDS)
                # These say that nothing was done; after the other failures that may pass, it may have been.
                is_undone = error.status == 429 or (error.is_conflict and method != "DELETE")
                may_repeat = is_undone or (error.is_transient and not error.is_conflict and method in _REPEATABLE)
                if not may_repeat or time.monotonic() + wait > give_up_at:
                    raise
            except UnreachableError as error:
                wait = pause
                if error.is_permanent or time.monotonic() + wait > give_up_at:
                    raise
            except AnswerLostError:
                wait = pause
                if method not in _REPEATABLE or time.monotonic() + wait > give_up_at:
                    raise
            else:
                if isinstance(answer, dict):
                    return answer
                raise AnswerLostError(f"{what}: the answer of {self._connections.server} is not a JSON object")
            time.sleep(wait)
        raise AssertionError("delays have no end")

    def _send(
        self,
        method: str,
        target: str,
        what: str,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        timeout: float = _TIMEOUT_SECONDS,
    ) -> ApiAnswer:
        """Send a request, and return a successful answer; once more with new credentials if these were refused."""
        for is_last in (False, True):
            answer = self._connections.request(method, target, body=body, headers=headers, timeout=timeout)
            if answer.status < 300:
                return answer
            if answer.status == 401 and not is_last:
                answer.read_json()
                self.access.credentials.forget()
                continue
            break
        if answer.status == 401:
            what = f"{self._connections.label} does not accept your credentials"
        retry_after = answer.find_header("Retry-After")
        seconds = float(retry_after) if retry_after and retry_after.isdecimal() else None
        raise build_api_error(what, answer.status, answer.read_json(), seconds)


def parse_time(text: str) -> float:
    """Return a time of the API, such as a creation timestamp, as seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


def _build_selector(labels: Mapping[str, str] | None) -> dict[str, str]:
    return {"labelSelector": ",".join(f"{name}={value}" for name, value in labels.items())} if labels else {}
