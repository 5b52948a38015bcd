"""What all task attempts of an executor share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tony.executor.metrics.metrics_sampler import Outbox
from tony.executor.network.port_reservation import TaskPorts
from tony.executor.output.log_serving import LogReaders
from tony.executor.output.writer_thread import WriterThread
from tony.executor.program.process_tree import ProcessTree
from tony.executor.program.spawn import Reaper
from tony.executor.remote.remote_programs import RemotePrograms
from tony.model.masking import SecretMask
from tony.protocol.launch import LaunchContext

if TYPE_CHECKING:
    from tony.executor.program.hadoop_classpath import HadoopClasspath


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The launch context, helpers, and settings that the AM may change.

    Attributes:
        environment: the executor's own.
        point_out: reports processes of the program to the watchdog that it does not find by itself.
        sample_interval, step_interval: return the current seconds between two samples, and between reports of steps.
    """

    context: LaunchContext
    environment: Mapping[str, str]
    process_tree: ProcessTree
    ports: TaskPorts
    reaper: Reaper
    writer: WriterThread
    readers: LogReaders
    point_out: Callable[[Sequence[int]], None]
    outbox: Outbox
    sample_interval: Callable[[], float]
    mask: SecretMask
    step_interval: Callable[[], float]
    remote_programs: RemotePrograms
    classpath: HadoopClasspath | None = None
