"""Resources of this machine: memory and GPUs."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tony.linux.kernel_files import parse_number
from tony.schedulers.local.settings import LocalSettings
from tony.units import format_size

#: Share of the memory that jobs may reserve; the rest is for the system, application masters and executors.
SHARE = 0.9
#: Seconds that nvidia-smi may take: it wakes sleeping devices one after the other.
_SMI_TIMEOUT_SECONDS = 30.0
_UUID = re.compile(r"\bGPU-[0-9a-f]{8}-[0-9a-f-]{27}\b")
_MINOR = re.compile(r"Device Minor:\s*(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The resources that all jobs of this machine share, as one job sees them.

    Attributes:
        memory: bytes.
        gpus: device ids, as in CUDA_VISIBLE_DEVICES.
        memory_origin, gpus_origin: where the values come from, for messages: `90% of this machine's 23.5g`.
    """

    memory: int
    gpus: tuple[str, ...] = ()
    memory_origin: str = ""
    gpus_origin: str = ""


def measure(settings: LocalSettings, *, with_gpus: bool, root: Path = Path("/")) -> Machine:
    """Return the resources of this machine, or those that the settings give.

    Args:
        with_gpus: detect GPUs; that may take seconds, so only a job that requests some asks for it.
        root: parent of /proc, /sys and /dev; another folder in tests.
    """
    memory, memory_origin = _find_memory(settings, root)
    gpus, gpus_origin = _find_gpus(settings, root) if with_gpus else ((), "")
    return Machine(memory=memory, gpus=gpus, memory_origin=memory_origin, gpus_origin=gpus_origin)


def _find_memory(settings: LocalSettings, root: Path) -> tuple[int, str]:
    if settings.memory is not None:
        return settings.memory, "set by scheduler.local.memory"
    total = _read_total_memory(root)
    limit = _read_memory_limit(root)
    usable = total if limit is None else min(total, limit)
    what = "this machine's" if usable == total else "the control group's"
    return int(usable * SHARE), f"{SHARE:.0%} of {what} {format_size(usable)}"


def _read_total_memory(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal" and (kib := parse_number(value.removesuffix("kB").strip())):
            return kib * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _read_memory_limit(root: Path) -> int | None:
    """Return the lowest limit from our own control group up to the root, cgroup v1 and v2; None without any."""
    limits = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, group = (*line.split(":", 2), "", "")[:3]
        if not group.startswith("/"):
            continue
        if controllers == "":
            mount, file = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            mount, file = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        folder = mount / group.lstrip("/")
        for place in (folder, *folder.parents):
            limit = parse_number(_read(place / file).strip())
            if limit is not None:  # "max" means none
                limits.append(limit)
            if place == mount:
                break
    return min(limits, default=None)


def _find_gpus(settings: LocalSettings, root: Path) -> tuple[tuple[str, ...], str]:
    if settings.gpus is not None:
        return tuple(str(number) for number in range(settings.gpus)), "set by scheduler.local.gpus"
    found = _list_driver_gpus(root)
    if found is None:
        found = _list_smi_gpus()
    return found, "NVIDIA devices found" if found else ""


def _list_driver_gpus(root: Path) -> tuple[str, ...] | None:
    """Return UUIDs of the devices that the driver lists and we may open; None if the driver does not list them."""
    folder = root / "proc/driver/nvidia/gpus"
    try:
        files = sorted(folder.glob("*/information"))
    except OSError:
        return None
    uuids = []
    for file in files:
        text = _read(file)
        uuid, minor = _UUID.search(text), _MINOR.search(text)
        if not uuid or not minor:
            return None  # a device that has not been used since boot has no UUID yet
        # In a container the driver lists all devices of the machine; those passed to it have a device node.
        if os.access(root / f"dev/nvidia{minor[1]}", os.R_OK | os.W_OK):
            uuids.append(uuid[0])
    return tuple(uuids) if files else None


def _list_smi_gpus() -> tuple[str, ...]:
    import shutil  # late: it loads every compressor

    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        answer = subprocess.run(
            [program, "-L"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SMI_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ()
    return parse_gpu_list(answer.stdout) if answer.returncode == 0 else ()


def parse_gpu_list(answer: str) -> tuple[str, ...]:
    """Return UUIDs of the devices in the output of `nvidia-smi -L`."""
    return tuple(_UUID.findall(answer))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):  # or a NUL in the path
        return ""
