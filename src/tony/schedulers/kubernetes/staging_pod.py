"""Sends objects to the claim of `staging`, through a pod that has it mounted; see `staging_receiver`.

The pod belongs to the suspended Job of the submission, and exits if it has no client for a minute.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from tony.errors import SchedulerError
from tony.kube.api_client import ApiClient, Object
from tony.kube.denials import Denials
from tony.kube.errors import KubeApiError, KubeError
from tony.kube.resources import PODS
from tony.linux.disk_errors import explain_os_error
from tony.retry import Backoff
from tony.schedulers.kubernetes import pod_status
from tony.schedulers.kubernetes.cancellation import Cancellation
from tony.schedulers.kubernetes.port_forward import forward_port
from tony.schedulers.kubernetes.staging_receiver import MAX_LINE_BYTES, PORT

#: Seconds for the pod to start, its image included.
_START_SECONDS = 300.0
#: Seconds for an answer: the pod writes an object to its disks.
_ANSWER_SECONDS = 300.0
#: Seconds for which connections are made again, although no more of an object arrives.
_STUCK_SECONDS = 120.0
_BACKOFF = Backoff(first=0.1, most=2.0)
_CHUNK_BYTES = 1 << 18


class _RefusedError(SchedulerError):
    """The pod cannot store the object."""


class StagingPod:
    """A pod that receives objects, while it is entered.

    Args:
        body: the pod to create.
        stop: set to stop what is waiting or sending, which then raises SchedulerError.
    """

    def __init__(self, client: ApiClient, body: Object, stop: Cancellation) -> None:
        self._client, self._body, self._stop = client, body, stop
        self._name = str(body["metadata"]["name"])

    def __enter__(self) -> StagingPod:
        """Create the pod, and wait until it runs.

        Raises:
            SchedulerError: it does not start; says why.
        """
        try:
            self._client.create_unique(PODS, self._body)
            self._wait_until_running()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(KubeError):  # it exits, and is removed with its Job
            self._client.delete(PODS, self._name, grace_seconds=1)

    def _wait_until_running(self) -> None:
        give_up_at = time.monotonic() + _START_SECONDS
        for pause in _BACKOFF:
            found = self._client.list(PODS, name=self._name).items
            if not found:
                raise self._build_deleted_error()
            (pod,) = found
            failure = pod_status.find_start_failure(pod)
            if pod_status.has_ended(pod):
                raise SchedulerError(f"the pod {self._name} ended: {pod_status.explain_end(pod).cause}")
            if failure and not failure.grace_seconds:
                raise SchedulerError(f"the pod {self._name} cannot start: {failure.text}")
            if pod.get("status", {}).get("phase") == "Running":
                return
            if time.monotonic() > give_up_at:
                reason = (failure and failure.text) or pod_status.find_pending_reason(pod) or "see kubectl describe pod"
                text = f"the pod {self._name} did not start within {_START_SECONDS:.0f} s: {reason}"
                raise SchedulerError(text)
            self._stop.wait(pause)
            self._stop.check()

    def _build_deleted_error(self) -> SchedulerError:
        return SchedulerError(f"the pod {self._name} was deleted: its node was lost, or the job was killed")

    def send(self, digest: str, path: Path) -> int:
        """Send an object, or what is missing of it; return the number of bytes that were sent.

        Raises:
            SchedulerError: the pod cannot store it, or cannot be reached.
            StorageError: the local file cannot be read.
        """
        with explain_os_error(f"read {path}", path.parent):
            file = path.open("rb")
        with file:
            return self._send(digest, path, file)

    def _send(self, digest: str, path: Path, file: IO[bytes]) -> int:
        size = os.fstat(file.fileno()).st_size
        received, sent, denials = 0, 0, Denials()
        stuck_since: float | None = None
        for pause in _BACKOFF:
            try:
                with self._connect() as stream:
                    offset = int(str(_request(stream, {"digest": digest, "size": size})["offset"]))
                    if offset > received:
                        received, stuck_since = offset, None
                    sent += _copy(file, offset, stream, self._stop)
                    _read_answer(stream)
                    return sent
            except _RefusedError:
                raise
            except (OSError, EOFError, KubeError) as error:
                if isinstance(error, KubeApiError) and error.is_missing:
                    raise self._build_deleted_error() from error
                if isinstance(error, KubeApiError) and error.is_denied and denials.are_permanent():
                    raise
                now = time.monotonic()
                stuck_since = stuck_since or now
                if now - stuck_since > _STUCK_SECONDS:
                    text = f"cannot send {path} to the pod {self._name}, which has {received} of {size} bytes: {error}"
                    raise SchedulerError(text) from error
            self._stop.wait(pause)
            self._stop.check()
        raise AssertionError("delays have no end")

    def remove_unused(self, kept: Collection[str]) -> None:
        """Remove other objects that were received long ago.

        Raises:
            SchedulerError, OSError, EOFError: the pod cannot do that now.
        """
        with self._connect() as stream:
            _request(stream, {"keep": sorted(kept)})

    @contextmanager
    def _connect(self) -> Iterator[IO[bytes]]:
        sock = forward_port(self._client, self._name, PORT)
        sock.settimeout(_ANSWER_SECONDS)
        with sock, sock.makefile("rwb") as pair:
            stream = cast("IO[bytes]", pair)
            _read_answer(stream)
            yield stream


def _copy(file: IO[bytes], offset: int, stream: IO[bytes], stop: Cancellation) -> int:
    """Send a file from an offset on; return the number of bytes."""
    file.seek(offset)
    while data := file.read(_CHUNK_BYTES):
        stop.check()
        stream.write(data)
    stream.flush()
    return file.tell() - offset


def _request(stream: IO[bytes], request: Mapping[str, object]) -> Mapping[str, object]:
    stream.write(json.dumps(request).encode() + b"\n")
    stream.flush()
    return _read_answer(stream)


def _read_answer(stream: IO[bytes]) -> Mapping[str, object]:
    answer: Mapping[str, object] = {"checked": 0}
    while "checked" in answer:  # it reads what it has of an object, which may take long
        try:
            answer = json.loads(stream.readline(MAX_LINE_BYTES))
        except ValueError:
            raise EOFError("the connection to the pod broke") from None
    if "error" in answer:
        raise (EOFError if answer["may_repeat"] else _RefusedError)(str(answer["error"]))
    return answer
