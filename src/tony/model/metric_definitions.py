"""The metrics of a task: names, units, and descriptions. One table for every surface.

A name is `cpu`, or `gpu0.power` for the first GPU granted to the task, or `user.loss` for a value that the program
reports with `tony.progress(step, loss=...)`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tony.model.value_class import value_class
from tony.units import Unit

#: Valid names of metrics, including those of programs. Longer ones, or more than `MAX_PROGRAM_SERIES` of one program,
#: are dropped.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
#: Maximum number of metrics that one program may report.
MAX_PROGRAM_SERIES = 32
#: Prefix of metrics that programs report.
OF_PROGRAMS = "user."
#: Points of one series in one answer of the AM.
MAX_POINTS = 240
_DEVICE = re.compile(r"gpu(\d{1,3})\.(.+)")


class MetricGroup(StrEnum):
    """What a metric is about; pages show the groups in this order."""

    PROGRAM = "Reported by the program"
    PROGRESS = "Progress"
    GPU = "GPU"
    CPU = "CPU"
    MEMORY = "Memory"
    TRANSFER = "Disk and network"


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """One metric.

    Attributes:
        title: heading of its chart.
        what: description, one line.
        of_host: measured for the whole host or network namespace, not for the program alone.
    """

    name: str
    title: str
    unit: Unit
    what: str
    group: MetricGroup
    of_host: bool = False


_OF_PROGRAM = (
    MetricSeries("cpu", "CPU", Unit.CORES, "CPU cores used by the program and its child processes", MetricGroup.CPU),
    MetricSeries(
        "rss",
        "Memory (RSS)",
        Unit.BYTES,
        "resident memory (RSS); shared pages count once per process",
        MetricGroup.MEMORY,
    ),
    MetricSeries(
        "pss",
        "Memory (PSS)",
        Unit.BYTES,
        "resident memory (PSS); shared pages are divided among processes",
        MetricGroup.MEMORY,
    ),
    MetricSeries("threads", "Threads", Unit.COUNT, "of the program and its child processes", MetricGroup.CPU),
    MetricSeries("disk-read", "Disk reads", Unit.BYTES_PER_SECOND, "read from disks", MetricGroup.TRANSFER),
    MetricSeries("disk-write", "Disk writes", Unit.BYTES_PER_SECOND, "written to disks", MetricGroup.TRANSFER),
    MetricSeries(
        "major-faults", "Major page faults", Unit.PER_SECOND, "page faults that read from disk", MetricGroup.MEMORY
    ),
    MetricSeries("throttled", "CPU throttling", Unit.SHARE, "time throttled by the CPU limit", MetricGroup.CPU),
    MetricSeries(
        "cpu-wait",
        "Waiting for a processor",
        Unit.SHARE,
        "time that a process was ready but waited for a processor; of the one that waited most",
        MetricGroup.CPU,
    ),
    MetricSeries("oom-kills", "OOM kills", Unit.COUNT, "OOM kills (total)", MetricGroup.MEMORY),
    MetricSeries(
        "steal",
        "CPU steal",
        Unit.SHARE,
        "CPU time of the whole host taken by its hypervisor",
        MetricGroup.CPU,
        of_host=True,
    ),
    MetricSeries(
        "iowait",
        "Waiting for disks",
        Unit.SHARE,
        "CPU time of the whole host spent waiting for disks",
        MetricGroup.CPU,
        of_host=True,
    ),
    MetricSeries(
        "net-in", "Network in", Unit.BYTES_PER_SECOND, "received by the whole host", MetricGroup.TRANSFER, of_host=True
    ),
    MetricSeries(
        "net-out", "Network out", Unit.BYTES_PER_SECOND, "sent by the whole host", MetricGroup.TRANSFER, of_host=True
    ),
    MetricSeries(
        "files", "Open files", Unit.COUNT, "open file descriptors: files, sockets, pipes", MetricGroup.TRANSFER
    ),
    MetricSeries("step", "Step", Unit.COUNT, "last one reported by the program", MetricGroup.PROGRESS),
    MetricSeries("total", "Total steps", Unit.COUNT, "number of steps, reported by the program", MetricGroup.PROGRESS),
)
_OF_DEVICE = (
    MetricSeries("util", "utilization", Unit.SHARE, "utilization of the device", MetricGroup.GPU),
    MetricSeries("memory", "memory", Unit.BYTES, "device memory in use", MetricGroup.GPU),
    MetricSeries("memory-total", "total memory", Unit.BYTES, "device memory", MetricGroup.GPU),
    MetricSeries("power", "power", Unit.WATT, "power drawn", MetricGroup.GPU),
    MetricSeries("clock", "clock", Unit.HERTZ, "clock of its processors (SM)", MetricGroup.GPU),
    MetricSeries("temperature", "temperature", Unit.CELSIUS, "temperature", MetricGroup.GPU),
    MetricSeries("ecc", "memory errors (ECC)", Unit.COUNT, "uncorrectable memory errors (total)", MetricGroup.GPU),
    MetricSeries(
        "xid", "driver errors (Xid)", Unit.COUNT, "errors reported by the driver (Xid, total)", MetricGroup.GPU
    ),
)
#: By name; of devices by what follows the dot.
PROGRAM: Mapping[str, MetricSeries] = {series.name: series for series in _OF_PROGRAM}
DEVICE: Mapping[str, MetricSeries] = {series.name: series for series in _OF_DEVICE}


def series_of(name: str) -> MetricSeries | None:
    """Return the metric of a name; None if the name is unknown."""
    if name in PROGRAM:
        return PROGRAM[name]
    device = _DEVICE.fullmatch(name)
    if device and device[2] in DEVICE:
        of = DEVICE[device[2]]
        return MetricSeries(name, f"GPU {device[1]} {of.title}", of.unit, f"device {device[1]}: {of.what}", of.group)
    reported = find_program_name(name)
    if reported is not None and NAME.fullmatch(name):
        return MetricSeries(name, reported, Unit.NONE, "reported by the program", MetricGroup.PROGRAM)
    return None


def find_program_name(series: str) -> str | None:
    """Return the name that a program gave to its metric; None for a metric that tony measures."""
    return series.removeprefix(OF_PROGRAMS) if series.startswith(OF_PROGRAMS) else None


def find_unit(name: str) -> Unit:
    """Return the unit of a series; `Unit.NONE` if its name is unknown."""
    series = series_of(name)
    return series.unit if series else Unit.NONE


@value_class
class Points:
    """One series of one task.

    Attributes:
        at: seconds since the job was accepted: ends of the spans of `every` seconds that the points stand for.
        last: the newest value, in the last of these spans; None if not known.
    """

    task: str
    series: str
    every: float
    at: tuple[float, ...]
    least: tuple[float, ...]
    mean: tuple[float, ...]
    most: tuple[float, ...]
    last: float | None = None
