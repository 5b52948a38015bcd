"""Metrics of a task's GPUs from NVIDIA's driver through `pynvml` (package nvidia-ml-py).

tony does not bundle the package: it is used if installed next to tony or in this machine's Python.
"""

from __future__ import annotations

import contextlib
import glob
import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tony

log = logging.getLogger(__name__)

_PACKAGE = "pynvml"
_MHZ = 1e6
_MILLI = 1e-3
#: Xid errors read at a time.
_MAX_EVENTS = 100


class Devices:
    """The GPUs of one task. All methods may block on the driver: call them outside the event loop.

    Args:
        granted: device ids as in CUDA_VISIBLE_DEVICES, UUIDs or numbers; None: all visible ones.
        load: imports the package; replaced in tests.
    """

    def __init__(self, granted: Sequence[str] | None, load: Callable[[], Any] | None = None) -> None:
        self._granted = granted
        self._load = load or load_package
        self._nvml: Any = None
        self._handles: list[Any] | None = None
        self._events: Any = None
        self._xids: dict[int, int] = {}

    def poll(self) -> dict[str, float]:
        """Return metrics by the names of `model/metric_definitions.py`, if the driver provides them."""
        if self._handles is None:
            self._open()
        found: dict[str, float] = {}
        self._count_errors()
        for place, handle in enumerate(self._handles or ()):
            for name, value in self._read_metrics(handle):
                found[f"gpu{place}.{name}"] = value
            if place in self._xids:
                found[f"gpu{place}.xid"] = float(self._xids[place])
        return found

    def close(self) -> None:
        if self._nvml is not None:
            if self._events is not None:
                self._call(self._nvml.nvmlEventSetFree, self._events)
            self._call(self._nvml.nvmlShutdown)
        self._nvml, self._handles, self._events = None, [], None

    def _open(self) -> None:
        self._handles = []
        try:
            self._nvml = self._load()
        except ImportError as error:
            log.info("GPU metrics are not available: %s", error)
            return
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            log.info("GPU metrics are not available: %s", error)
            self._nvml = None
            return
        self._handles = (
            self._list_visible_handles() if self._granted is None else self._list_granted_handles(self._granted)
        )
        self._watch_errors()

    def _list_visible_handles(self) -> list[Any]:
        """Return handles of all devices visible in the container."""
        nvml = self._nvml
        count = self._call(nvml.nvmlDeviceGetCount) or 0
        handles = (self._call(nvml.nvmlDeviceGetHandleByIndex, place) for place in range(count))
        return [handle for handle in handles if handle is not None]

    def _list_granted_handles(self, granted: Sequence[str]) -> list[Any]:
        nvml = self._nvml
        return [  # an unknown device keeps its place
            self._call(nvml.nvmlDeviceGetHandleByIndex, int(name))
            if name.isdigit()
            else self._call(nvml.nvmlDeviceGetHandleByUUID, name)
            for name in granted
        ]

    def _read_metrics(self, handle: Any) -> Iterator[tuple[str, float]]:
        if handle is None:
            return
        nvml = self._nvml
        use = self._call(nvml.nvmlDeviceGetUtilizationRates, handle)
        if use is not None:
            yield "util", use.gpu / 100
        memory = self._call(nvml.nvmlDeviceGetMemoryInfo, handle)
        if memory is not None:
            yield "memory", float(memory.used)
            yield "memory-total", float(memory.total)
        for name, scale, read, *about in (
            ("power", _MILLI, nvml.nvmlDeviceGetPowerUsage),
            ("clock", _MHZ, nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            ("temperature", 1.0, nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            (
                "ecc",
                1.0,
                nvml.nvmlDeviceGetTotalEccErrors,
                nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                nvml.NVML_VOLATILE_ECC,
            ),
        ):
            value = self._call(read, handle, *about)
            if value is not None:
                yield name, value * scale

    # --- Xid ------------------------------------------------------------------------------------------------------

    def _watch_errors(self) -> None:
        nvml = self._nvml
        self._events = self._call(nvml.nvmlEventSetCreate) if self._handles else None
        if self._events is None:
            return
        for place, handle in enumerate(self._handles or ()):
            if handle is None:
                continue
            with contextlib.suppress(nvml.NVMLError):
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._events)
                self._xids[place] = 0

    def _count_errors(self) -> None:
        """Count the errors that the driver has reported since the last call."""
        if self._events is None:
            return
        wait = getattr(self._nvml, "nvmlEventSetWait_v2", None) or self._nvml.nvmlEventSetWait
        for _ in range(_MAX_EVENTS):
            event = self._call(wait, self._events, 0)
            if event is None:
                return
            place = self._find_index(event.device)
            if place in self._xids:
                self._xids[place] += 1

    def _find_index(self, device: Any) -> int:
        number = self._call(self._nvml.nvmlDeviceGetIndex, device)
        for place, handle in enumerate(self._handles or ()):
            if (
                handle is not None
                and number is not None
                and self._call(self._nvml.nvmlDeviceGetIndex, handle) == number
            ):
                return place
        return -1

    def _call(self, read: Callable[..., Any], *about: Any) -> Any:
        """Return the driver's answer; None if the device does not support the call or the driver fails."""
        try:
            return read(*about)
        except self._nvml.NVMLError:
            return None


def load_package() -> Any:
    """Import `pynvml` from next to tony or from this machine's Python, which are not on the executor's path.

    Raises:
        ImportError: it is in neither.
    """
    before = list(sys.path)
    sys.path += [folder for folder in find_folders() if folder not in sys.path]
    try:
        return importlib.import_module(_PACKAGE)
    except ImportError as error:
        raise ImportError(
            f"package nvidia-ml-py is installed neither next to tony nor in {sys.executable}: {error}"
        ) from error
    finally:
        sys.path[:] = before


def find_folders() -> list[str]:
    """Return the folders that contain it."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    tony_parent = str(Path(tony.__file__).parent.parent)
    prefix = Path(sys.executable).parent.parent
    found = [tony_parent, f"{prefix}/lib/{version}/site-packages", f"{sys.prefix}/lib/{version}/site-packages"]
    found += ["/usr/lib/python3/dist-packages", *glob.glob(f"/usr/local/lib/{version}/*-packages")]
    return [folder for folder in dict.fromkeys(found) if os.path.isfile(f"{folder}/{_PACKAGE}.py")]
