"""What the driver says of devices: through a library made for the test, which has all the driver's moods."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tony
from tony.executor.metrics import gpu_metrics
from tony.executor.metrics.gpu_metrics import Devices
from tony.model.metric_definitions import series_of


class NVMLError(Exception):
    """As the package's own."""


class Library:
    """Two devices; the second cannot tell its power. Errors are those of a test."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 1, 0
    nvmlEventTypeXidCriticalError = 8  # noqa: N815 - theirs

    def __init__(self, driver: bool = True) -> None:
        self.driver = driver
        self.watched: list[str] = []
        self.xids: list[str] = []
        self.ended = 0

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.driver:
            raise NVMLError("Driver Not Loaded")

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.ended += 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        if index > 1:
            raise NVMLError("Invalid Argument")
        return f"GPU-{index}"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if uuid not in ("GPU-0", "GPU-1"):
            raise NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetIndex(self, handle: str) -> int:  # noqa: N802
        return int(handle[-1])

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=75, memory=5)

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:  # noqa: N802
        return SimpleNamespace(used=10 << 30, total=80 << 30)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:  # noqa: N802
        if handle == "GPU-1":
            raise NVMLError("Not Supported")
        return 350_500

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:  # noqa: N802
        return 1980

    def nvmlDeviceGetTemperature(self, handle: str, kind: int) -> int:  # noqa: N802
        return 61

    def nvmlDeviceGetTotalEccErrors(self, handle: str, kind: int, since: int) -> int:  # noqa: N802
        return 2

    def nvmlEventSetCreate(self) -> str:  # noqa: N802
        return "set"

    def nvmlEventSetFree(self, events: str) -> None:  # noqa: N802
        assert events == "set"

    def nvmlDeviceRegisterEvents(self, handle: str, kinds: int, events: str) -> None:  # noqa: N802
        self.watched.append(handle)

    def nvmlEventSetWait_v2(self, events: str, timeout: int) -> Any:  # noqa: N802
        assert timeout == 0
        if not self.xids:
            raise NVMLError("Timeout")
        return SimpleNamespace(device=self.xids.pop(0), eventData=79)


ALL = {"util", "memory", "memory-total", "power", "clock", "temperature", "ecc", "xid"}


def test_all_metrics_of_the_granted_devices_are_reported() -> None:
    """In our units and under their usual names; a device that was granted alone is the first one."""
    library = Library()
    found = Devices(("GPU-0",), lambda: library)
    values = found.poll()
    assert values == {
        "gpu0.util": 0.75,
        "gpu0.memory": float(10 << 30),
        "gpu0.memory-total": float(80 << 30),
        "gpu0.power": 350.5,
        "gpu0.clock": 1.98e9,
        "gpu0.temperature": 61.0,
        "gpu0.ecc": 2.0,
        "gpu0.xid": 0.0,
    }
    assert all(series_of(name) for name in values)
    assert library.watched == ["GPU-0"]
    found.close()
    found.close()
    assert library.ended == 1


def test_numbers_are_ids_and_unknown_devices_are_left_out() -> None:
    """A device that is not known keeps its place, and has nothing to say."""
    values = Devices(("1", "9", "0"), Library).poll()
    assert {name for name in values if name.startswith("gpu0.")} == {f"gpu0.{name}" for name in ALL - {"power"}}
    assert not [name for name in values if name.startswith("gpu1.")]
    assert {name for name in values if name.startswith("gpu2.")} == {f"gpu2.{name}" for name in ALL}


def test_without_a_list_all_that_are_seen_count() -> None:
    """A container has its own view of the machine."""
    assert {name.partition(".")[0] for name in Devices(None, Library).poll()} == {"gpu0", "gpu1"}


def test_errors_of_the_driver_are_counted() -> None:
    """Each once, for the device that had it."""
    library = Library()
    found = Devices(("GPU-1", "GPU-0"), lambda: library)
    found.poll()
    library.xids = ["GPU-0", "GPU-0", "GPU-1"]
    values = found.poll()
    assert (values["gpu0.xid"], values["gpu1.xid"]) == (1, 2)
    assert found.poll()["gpu1.xid"] == 2


def test_without_driver_or_package_there_is_nothing() -> None:
    """And it is looked for once."""
    asked = []

    def missing() -> Any:
        asked.append(1)
        raise ImportError("no package")

    without = Devices(("GPU-0",), missing)
    assert (without.poll(), without.poll(), len(asked)) == ({}, {}, 1)
    without.close()
    silent = Devices(("GPU-0",), lambda: Library(driver=False))
    assert silent.poll() == {}
    silent.close()


def test_the_package_is_found_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without leaving its folder where we import from."""
    (tmp_path / "pynvml.py").write_text("NAME = 'mine'\n")
    monkeypatch.setattr(gpu_metrics, "find_folders", lambda: [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if not (Path(each) / "pynvml.py").is_file()])
    before = list(sys.path)
    assert gpu_metrics.load_package().NAME == "mine"
    assert sys.path == before
    sys.modules.pop("pynvml")
    monkeypatch.setattr(gpu_metrics, "find_folders", list)
    with pytest.raises(ImportError, match="nvidia-ml-py"):
        gpu_metrics.load_package()


def test_the_package_itself() -> None:
    """It has every name that we use; what it measures here, if anything, is of known series."""
    package = gpu_metrics.load_package()
    used = {
        name
        for name in re.findall(r"nvml\.(\w+)", Path(gpu_metrics.__file__).read_text())
        if name[:4].lower() == "nvml"
    }
    assert "nvmlDeviceGetUtilizationRates" in used
    assert [name for name in sorted(used) if not hasattr(package, name)] == []
    found = Devices(None)
    measured = found.poll()
    found.close()
    assert {series_of(name) is not None for name in measured} <= {True}


def test_it_is_found_where_tony_is_installed(tmp_path: Path) -> None:
    """By a program of ours, which sees no installed package by itself; its folder is not left where it imports from."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(tony.__file__).parents[1])!r}); "
        "from tony.executor.metrics.gpu_metrics import load_package; "
        "print(load_package().__name__, [each for each in sys.path if 'site-packages' in each])"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "pynvml []\n"
