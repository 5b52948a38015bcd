"""Why the AM's container cannot start, and since when, as commands on this machine have seen it.

A pod does not say since when. Its age proves nothing: a pull may take minutes, and then fail once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tony import clock
from tony.kube.api_client import Object
from tony.linux.files import replace_file
from tony.model.state_directory import JobFolder
from tony.schedulers.kubernetes import pod_status
from tony.schedulers.kubernetes.launch_payload import decode_payload, encode_payload
from tony.schedulers.kubernetes.pod_table import StartFailure
from tony.units import format_duration

#: Seconds for which the node of an AM may be unable to start it: nothing moves its pod to another one.
_NODE_SECONDS = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailureTimes:
    """Since when the AM cannot start in its pod.

    Attributes:
        pod: its uid.
        since: see `StartFailure.add_time`; times in seconds since 1970.
    """

    pod: str = ""
    since: Mapping[str, float] = field(default_factory=dict)


def find_am_start_failure(pod: Object) -> StartFailure | None:
    """Return why the AM cannot start in its pod; None if it can."""
    failure = pod_status.find_start_failure(pod)
    return replace(failure, grace_seconds=_NODE_SECONDS) if failure and failure.may_be_node_failure else failure


def describe_pending(pod: Object) -> str:
    """Return why the AM does not run yet, and for how long that may be so; empty if nothing is wrong."""
    if reason := pod_status.find_pending_reason(pod):
        return reason
    failure = find_am_start_failure(pod)
    if failure is None or not failure.grace_seconds:
        return failure.text if failure else ""
    limit = format_duration(failure.grace_seconds)
    return f"{failure.text}; if that lasts for {limit}, the next command that follows the job, or asks for it, ends it"


def has_lasted(folder: JobFolder, pod: str, failure: StartFailure | None) -> bool:
    """Note why the AM's container cannot start now; return True if its grace has passed.

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
    earlier: Mapping[float, float] = {}
    with contextlib.suppress(OSError, ValueError):
        before = decode_payload(StartFailureTimes, path.read_bytes())
        if before.pod == pod:
            earlier = {float(grace): at for grace, at in before.since.items()}
    since = failure.add_time(earlier, now)
    if since != earlier:
        times = StartFailureTimes(pod=pod, since={f"{grace:g}": at for grace, at in since.items()})
        with contextlib.suppress(OSError):
            replace_file(path, encode_payload(times))
    return now - since[failure.grace_seconds] >= failure.grace_seconds
