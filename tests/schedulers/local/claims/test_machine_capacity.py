"""What a machine has, read from a made-up /proc and /sys."""

from pathlib import Path

import pytest

from tony.model.job_spec import GIB
from tony.schedulers.local.claims.machine_capacity import Machine, measure
from tony.schedulers.local.settings import LocalSettings

UUIDS = [f"GPU-{digit * 8}-0000-1111-2222-333344445555" for digit in "0a"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "proc/meminfo", "MemTotal:       10485760 kB\nMemFree:  1 kB\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def gpu(root: Path, number: int, uuid: str, *, node: bool = True) -> None:
    text = f"Model: \t\t NVIDIA X\nGPU UUID: \t {uuid}\nDevice Minor: \t {number}\n"
    write(root / f"proc/driver/nvidia/gpus/0000:0{number}:00.0/information", text)
    if node:
        write(root / f"dev/nvidia{number}", "")


def test_nine_tenths_of_the_memory(root: Path) -> None:
    """A tenth is left to the system, and how the number came about is told."""
    machine = measure(LocalSettings(), with_gpus=False, root=root)
    assert machine == Machine(memory=9 * GIB, memory_origin="90% of this machine's 10g")


def test_limit_of_our_group_version_2(root: Path) -> None:
    """The lowest limit on the way up counts, as in a container of a cluster manager."""
    write(root / "proc/self/cgroup", "0::/a/b\n")
    write(root / "sys/fs/cgroup/a/memory.max", f"{5 * GIB}\n")
    write(root / "sys/fs/cgroup/a/b/memory.max", "max\n")
    machine = measure(LocalSettings(), with_gpus=False, root=root)
    assert (machine.memory, machine.memory_origin) == (int(4.5 * GIB), "90% of the control group's 5g")


def test_limit_of_our_group_version_1(root: Path) -> None:
    """The controller's own tree; "no limit" is a number beyond all memory."""
    write(root / "proc/self/cgroup", "4:cpu:/x\n3:memory:/x\n0::/\n")
    write(root / "sys/fs/cgroup/memory/memory.limit_in_bytes", f"{2**63 - 4096}\n")
    assert measure(LocalSettings(), with_gpus=False, root=root).memory == 9 * GIB
    write(root / "sys/fs/cgroup/memory/x/memory.limit_in_bytes", f"{GIB}\n")
    assert measure(LocalSettings(), with_gpus=False, root=root).memory == GIB * 9 // 10


def test_group_seen_from_inside_a_container(root: Path) -> None:
    """There the path may be the host's, and the mount is our group itself."""
    write(root / "proc/self/cgroup", "0::/../../host/path\n")
    write(root / "sys/fs/cgroup/memory.max", f"{GIB}\n")
    assert measure(LocalSettings(), with_gpus=False, root=root).memory <= 9 * GIB


def test_set_memory(root: Path) -> None:
    """What is set is taken as it is."""
    machine = measure(LocalSettings(memory=123), with_gpus=False, root=root)
    assert machine == Machine(memory=123, memory_origin="set by scheduler.local.memory")


def test_pretended_gpus(root: Path) -> None:
    """They are numbered; none can be pretended too."""
    gpu(root, 0, UUIDS[0])
    assert measure(LocalSettings(gpus=3), with_gpus=True, root=root).gpus == ("0", "1", "2")
    assert measure(LocalSettings(gpus=0), with_gpus=True, root=root).gpus == ()


def test_real_gpus(root: Path) -> None:
    """Those of the driver that we may open, by their UUIDs, which are the same for all users."""
    gpu(root, 0, UUIDS[0])
    gpu(root, 1, UUIDS[1], node=False)
    assert measure(LocalSettings(), with_gpus=True, root=root).gpus == (UUIDS[0],)


def test_gpus_are_not_looked_for_without_need(root: Path) -> None:
    """A job that wants none does not wait until they have woken up."""
    gpu(root, 0, UUIDS[0])
    assert measure(LocalSettings(), with_gpus=False, root=root).gpus == ()


def test_a_sleeping_driver_is_queried_with_nvidia_smi(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its first use a device has no UUID in /proc: nvidia-smi wakes it."""
    gpu(root, 0, "GPU-????????-????-????-????-????????????")
    tool = root / "bin/nvidia-smi"
    write(tool, f"#!/bin/sh\n[ $1 = -L ] && echo 'GPU 0: NVIDIA X (UUID: {UUIDS[1]})'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    assert measure(LocalSettings(), with_gpus=True, root=root).gpus == (UUIDS[1],)


def test_broken_tool_means_no_gpus(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nvidia-smi without a driver fails; that is no reason to fail with it."""
    tool = root / "bin/nvidia-smi"
    write(tool, "#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    assert measure(LocalSettings(), with_gpus=True, root=root).gpus == ()


def test_this_machine() -> None:
    assert measure(LocalSettings(), with_gpus=False).memory > 0
