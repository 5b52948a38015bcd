"""For how long the AM's container could not start, as commands on this machine have seen it.

A pod does not say since when. Its age proves nothing: a pull may take minutes, and then fail once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from tony import clock
from tony.linux.files import replace_file
from tony.model.state_directory import JobFolder
from tony.schedulers.kubernetes.launch_payload import decode_payload, encode_payload
from tony.schedulers.kubernetes.pod_status import StartFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFailures:
    """What commands have seen of a pod since it could start last.

    Attributes:
        pod: its uid.
        since: seconds of grace -> when a failure of that kind was seen first, in seconds since 1970.
    """

    pod: str = ""
    since: Mapping[str, float] = field(default_factory=dict)


def has_lasted(folder: JobFolder, pod: str, failure: StartFailure | None) -> bool:
    """Note why the AM's container cannot start now; return True if it has been so for longer than may pass.

    Each kind of failure has its own time, also if it comes again after another one.

    Args:
        folder: the job's; a job of another machine has none, and its failures are not noted.
        pod: uid of the AM's pod.
        failure: None if it can start.
    """
    path, now = folder.am_start_failures, clock.wall()
    if failure is None or not failure.grace_seconds:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        return failure is not None
    seen = SeenFailures()
    with contextlib.suppress(OSError, ValueError):
        seen = decode_payload(SeenFailures, path.read_bytes())
    kind = f"{failure.grace_seconds:g}"
    if seen.pod == pod and kind in seen.since:
        return now - seen.since[kind] >= failure.grace_seconds
    before = seen.since if seen.pod == pod else {}
    with contextlib.suppress(OSError):
        replace_file(path, encode_payload(SeenFailures(pod=pod, since={**before, kind: now})))
    return False
