"""The metrics of a task: names, units, and descriptions. One table for every surface.

A name is `cpu`, or `gpu0.power` for the first GPU granted to the task, or `user.loss` for a value that the program
reports with `tony.progress(step, loss=...)`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """One metric.

    Attributes:
        what: description, one line.
        of_host: measured for the whole host or network namespace, not for the program alone.
    """

    name: str
    unit: Unit
    what: str
    of_host: bool = False


_OF_PROGRAM = (
    MetricSeries("cpu", Unit.CORES, "CPU cores used by the program and its child processes"),
    MetricSeries("rss", Unit.BYTES, "resident memory (RSS); shared pages count once per process"),
    MetricSeries("pss", Unit.BYTES, "resident memory (PSS); shared pages are divided among processes"),
    MetricSeries("threads", Unit.COUNT, "of the program and its child processes"),
    MetricSeries("files", Unit.COUNT, "open file descriptors: files, sockets, pipes"),
    MetricSeries("disk-read", Unit.BYTES_PER_SECOND, "read from disks"),
    MetricSeries("disk-write", Unit.BYTES_PER_SECOND, "written to disks"),
    MetricSeries("major-faults", Unit.PER_SECOND, "page faults that read from disk"),
    MetricSeries("throttled", Unit.SHARE, "time throttled by the CPU limit"),
    MetricSeries("oom-kills", Unit.COUNT, "OOM kills (total)"),
    MetricSeries("net-in", Unit.BYTES_PER_SECOND, "received by the whole host", of_host=True),
    MetricSeries("net-out", Unit.BYTES_PER_SECOND, "sent by the whole host", of_host=True),
    MetricSeries("step", Unit.COUNT, "last one reported by the program"),
    MetricSeries("total", Unit.COUNT, "number of steps, reported by the program"),
)
_OF_DEVICE = (
    MetricSeries("util", Unit.SHARE, "utilization of the device"),
    MetricSeries("memory", Unit.BYTES, "device memory in use"),
    MetricSeries("memory-total", Unit.BYTES, "device memory"),
    MetricSeries("power", Unit.WATT, "power drawn"),
    MetricSeries("clock", Unit.HERTZ, "clock of its processors (SM)"),
    MetricSeries("temperature", Unit.CELSIUS, "temperature"),
    MetricSeries("ecc", Unit.COUNT, "uncorrectable memory errors (total)"),
    MetricSeries("xid", Unit.COUNT, "errors reported by the driver (Xid, total)"),
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
        return MetricSeries(name, of.unit, f"device {device[1]}: {of.what}")
    if find_program_name(name) is not None and NAME.fullmatch(name):
        return MetricSeries(name, Unit.NONE, "reported by the program")
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
    """

    task: str
    series: str
    every: float
    at: tuple[float, ...]
    least: tuple[float, ...]
    mean: tuple[float, ...]
    most: tuple[float, ...]
