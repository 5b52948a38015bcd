"""What NVIDIA's driver measures of the devices that a task was granted, through `pynvml` (package nvidia-ml-py).

Tony does not bring that package: it is used where it lies beside tony, or in this machine's Python.
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
_MHZ, _MILLI = 1e6, 1e-3
#: Errors that are taken at a time.
_MOST_EVENTS = 100


class Devices:
    """The devices of one task. All methods may wait for the driver: call them beside the event loop.

    Args:
        granted: their ids as CUDA_VISIBLE_DEVICES has them, UUIDs or numbers; None: those that can be seen here.
        load: finds the package; another one in tests.
    """

    def __init__(self, granted: Sequence[str] | None, load: Callable[[], Any] | None = None) -> None:
        self._granted = granted
        self._load = load or load_package
        self._nvml: Any = None
        self._handles: list[Any] | None = None
        self._events: Any = None
        self._xids: dict[int, int] = {}

    def look(self) -> dict[str, float]:
        """What is measured, by the names of `model/metrics.py`; nothing of what the driver does not tell."""
        if self._handles is None:
            self._open()
        found: dict[str, float] = {}
        self._count_errors()
        for place, handle in enumerate(self._handles or ()):
            for name, value in self._of(handle):
                found[f"gpu{place}.{name}"] = value
            if place in self._xids:
                found[f"gpu{place}.xid"] = float(self._xids[place])
        return found

    def close(self) -> None:
        """Lets go of the driver."""
        if self._nvml is not None:
            if self._events is not None:
                self._ask(self._nvml.nvmlEventSetFree, self._events)
            self._ask(self._nvml.nvmlShutdown)
        self._nvml, self._handles, self._events = None, [], None

    def _open(self) -> None:
        self._handles = []
        try:
            self._nvml = self._load()
        except ImportError as error:
            log.info("devices are not measured: %s", error)
            return
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            log.info("devices are not measured: %s", error)
            self._nvml = None
            return
        self._handles = self._visible() if self._granted is None else self._named(self._granted)
        self._watch_errors()

    def _visible(self) -> list[Any]:
        """All that a container sees."""
        nvml = self._nvml
        count = self._ask(nvml.nvmlDeviceGetCount) or 0
        handles = (self._ask(nvml.nvmlDeviceGetHandleByIndex, place) for place in range(count))
        return [handle for handle in handles if handle is not None]

    def _named(self, granted: Sequence[str]) -> list[Any]:
        nvml = self._nvml
        return [  # one that is not known keeps its place
            self._ask(nvml.nvmlDeviceGetHandleByIndex, int(name))
            if name.isdigit()
            else self._ask(nvml.nvmlDeviceGetHandleByUUID, name)
            for name in granted
        ]

    def _of(self, handle: Any) -> Iterator[tuple[str, float]]:
        if handle is None:
            return
        nvml = self._nvml
        use = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        if use is not None:
            yield "util", use.gpu / 100
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
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
            value = self._ask(read, handle, *about)
            if value is not None:
                yield name, value * scale

    # --- Xid ------------------------------------------------------------------------------------------------------

    def _watch_errors(self) -> None:
        nvml = self._nvml
        self._events = self._ask(nvml.nvmlEventSetCreate) if self._handles else None
        if self._events is None:
            return
        for place, handle in enumerate(self._handles or ()):
            if handle is None:
                continue
            with contextlib.suppress(nvml.NVMLError):
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._events)
                self._xids[place] = 0

    def _count_errors(self) -> None:
        """Takes what the driver has reported since the last look."""
        if self._events is None:
            return
        wait = getattr(self._nvml, "nvmlEventSetWait_v2", None) or self._nvml.nvmlEventSetWait
        for _ in range(_MOST_EVENTS):
            event = self._ask(wait, self._events, 0)
            if event is None:
                return
            place = self._place_of(event.device)
            if place in self._xids:
                self._xids[place] += 1

    def _place_of(self, device: Any) -> int:
        number = self._ask(self._nvml.nvmlDeviceGetIndex, device)
        for place, handle in enumerate(self._handles or ()):
            if handle is not None and number is not None and self._ask(self._nvml.nvmlDeviceGetIndex, handle) == number:
                return place
        return -1

    def _ask(self, read: Callable[..., Any], *about: Any) -> Any:
        """What the driver says; None for what this device cannot do, or a driver in trouble."""
        try:
            return read(*about)
        except self._nvml.NVMLError:
            return None


def load_package() -> Any:
    """`pynvml`, from beside tony or from this machine's Python; our programs see neither by themselves.

    Raises:
        ImportError: it is in none of these places.
    """
    before = list(sys.path)
    sys.path += [folder for folder in places() if folder not in sys.path]
    try:
        return importlib.import_module(_PACKAGE)
    except ImportError as error:
        raise ImportError(f"no package nvidia-ml-py beside tony or in {sys.executable}: {error}") from error
    finally:
        sys.path[:] = before


def places() -> list[str]:
    """Folders in which it may lie."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    beside = str(Path(tony.__file__).parent.parent)
    prefix = Path(sys.executable).parent.parent
    found = [beside, f"{prefix}/lib/{version}/site-packages", f"{sys.prefix}/lib/{version}/site-packages"]
    found += ["/usr/lib/python3/dist-packages", *glob.glob(f"/usr/local/lib/{version}/*-packages")]
    return [folder for folder in dict.fromkeys(found) if os.path.isfile(f"{folder}/{_PACKAGE}.py")]
