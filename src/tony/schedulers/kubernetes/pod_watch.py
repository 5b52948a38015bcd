"""The changes of a job's pods, brought to the event loop of its AM."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping

from tony.kube.api_client import ApiClient
from tony.kube.errors import KubeError
from tony.kube.object_watch import ObjectChange, ObjectWatch
from tony.kube.resources import PODS
from tony.linux.thread_pools import call_on_loop

_log = logging.getLogger(__name__)


def start_pod_watch(
    client: ApiClient, labels: Mapping[str, str], on_change: Callable[[ObjectChange], None]
) -> ObjectWatch:
    """Watch the pods with some labels in a thread.

    Args:
        on_change: called on the running event loop, until that has ended.
    """
    loop = asyncio.get_running_loop()

    def note(change: ObjectChange) -> None:
        call_on_loop(loop, on_change, change)

    watch = ObjectWatch(client, PODS, labels, note, _log_trouble)
    threading.Thread(target=watch.run, name="pod-watch", daemon=True).start()
    return watch


def _log_trouble(error: KubeError | None) -> None:
    """Log why changes of pods are not seen now."""
    if error is not None:
        _log.warning("%s", error)
