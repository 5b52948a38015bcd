"""What is measured of a task while its program runs: names, units, and what they mean. One table for every surface.

A name is `cpu`, or `gpu0.power` for the first of the devices that the task was granted, or `user.loss` for what the
program tells itself with `tony.progress(step, loss=...)`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from tony.dataclass import dataclass

#: Names of series, ours and programs'. Longer ones, or more than `MOST_OF_A_PROGRAM` of one program, are left out.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
#: Series of its own that one program may have.
MOST_OF_A_PROGRAM = 32
#: What a program's own series begin with.
OF_PROGRAMS = "user."
_DEVICE = re.compile(r"gpu(\d{1,3})\.(.+)")


class Unit(Enum):
    """What a number counts."""

    CORES = "cores"
    BYTES = "B"
    BYTES_PER_SECOND = "B/s"
    COUNT = "count"
    PER_SECOND = "1/s"
    SHARE = "share"  #: 0 to 1
    WATT = "W"
    HERTZ = "Hz"
    CELSIUS = "°C"
    NONE = ""


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """One kind of number.

    Attributes:
        what: for people, one line.
        of_host: the kernel counts it for the whole host or network namespace, not for the program alone.
    """

    name: str
    unit: Unit
    what: str
    of_host: bool = False


_OF_PROGRAM = (
    MetricSeries("cpu", Unit.CORES, "cores in use by the program and all that it has started"),
    MetricSeries("rss", Unit.BYTES, "memory resident; what processes share counts once for each"),
    MetricSeries("pss", Unit.BYTES, "memory resident; what processes share is divided among them"),
    MetricSeries("threads", Unit.COUNT, "threads"),
    MetricSeries("files", Unit.COUNT, "open files"),
    MetricSeries("disk-read", Unit.BYTES_PER_SECOND, "read from disks"),
    MetricSeries("disk-write", Unit.BYTES_PER_SECOND, "written to disks"),
    MetricSeries("major-faults", Unit.PER_SECOND, "pages that had to be read from a disk"),
    MetricSeries("throttled", Unit.SHARE, "time in which the CPU limit kept it from running"),
    MetricSeries("oom-kills", Unit.COUNT, "processes that the kernel ended for want of memory, so far"),
    MetricSeries("net-in", Unit.BYTES_PER_SECOND, "received by all of the host", of_host=True),
    MetricSeries("net-out", Unit.BYTES_PER_SECOND, "sent by all of the host", of_host=True),
    MetricSeries("step", Unit.COUNT, "step of the training, as the program tells"),
    MetricSeries("total", Unit.COUNT, "steps that it is going to make"),
)
_OF_DEVICE = (
    MetricSeries("util", Unit.SHARE, "time in which the device computed"),
    MetricSeries("memory", Unit.BYTES, "memory of the device in use"),
    MetricSeries("memory-total", Unit.BYTES, "memory of the device"),
    MetricSeries("power", Unit.WATT, "power drawn"),
    MetricSeries("clock", Unit.HERTZ, "clock of its processors"),
    MetricSeries("temperature", Unit.CELSIUS, "temperature"),
    MetricSeries("ecc", Unit.COUNT, "memory errors that could not be corrected, so far"),
    MetricSeries("xid", Unit.COUNT, "errors that its driver has reported (Xid), so far"),
)
#: By name; of devices by what follows the dot.
PROGRAM: Mapping[str, MetricSeries] = {series.name: series for series in _OF_PROGRAM}
DEVICE: Mapping[str, MetricSeries] = {series.name: series for series in _OF_DEVICE}


def series_of(name: str) -> MetricSeries | None:
    """What a name stands for; None if it is none of ours and no program's own."""
    if name in PROGRAM:
        return PROGRAM[name]
    device = _DEVICE.fullmatch(name)
    if device and device[2] in DEVICE:
        of = DEVICE[device[2]]
        return MetricSeries(name, of.unit, f"device {device[1]}: {of.what}")
    if name.startswith(OF_PROGRAMS) and NAME.fullmatch(name):
        return MetricSeries(name, Unit.NONE, "told by the program")
    return None
