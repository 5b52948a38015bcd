"""For how long the AM's container could not start, as commands on this machine have seen it.

A pod does not say since when. Its age proves nothing: a pull may take minutes, and then fail once.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from tony import clock
from tony.linux.files import replace_file
from tony.model.state_directory import JobFolder
from tony.schedulers.kubernetes.launch_payload import decode_payload, encode_payload
from tony.schedulers.kubernetes.pod_status import StartFailure

_FILE = ".am-start-failure.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFailure:
    """A failure that commands see again and again.

    Attributes:
        pod: uid of the pod.
        grace_seconds: of failures of its kind.
        since: when one was seen first, in seconds since 1970.
    """

    pod: str
    grace_seconds: float
    since: float


def has_lasted(folder: JobFolder, pod: str, failure: StartFailure | None) -> bool:
    """Note why the AM's container cannot start now; return True if it has been so for longer than may pass.

    Args:
        folder: the job's; a job of another machine has none, and its failures are not noted.
        pod: uid of the AM's pod.
        failure: None if it can start.
    """
    path, now = folder.path / _FILE, clock.wall()
    if failure is None or not failure.grace_seconds:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        return failure is not None
    seen = None
    with contextlib.suppress(OSError, ValueError):
        seen = decode_payload(SeenFailure, path.read_bytes())
    if seen and (seen.pod, seen.grace_seconds) == (pod, failure.grace_seconds) and seen.since <= now:
        return now - seen.since >= failure.grace_seconds
    with contextlib.suppress(OSError):
        replace_file(path, encode_payload(SeenFailure(pod=pod, grace_seconds=failure.grace_seconds, since=now)))
    return False
