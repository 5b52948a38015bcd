"""What the kernel and other programs tell of the machine: seldom wrong, but other machines have other kernels."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from tests.fuzz.scratch_folders import scratch
from tests.fuzz.target import Target
from tony.linux import container_cgroup, socket_owners
from tony.linux.inotify import Inotify, InotifyMask
from tony.linux.process import parse_stat
from tony.schedulers.local.claims.machine_capacity import measure, parse_gpu_list
from tony.schedulers.local.settings import LocalSettings

_PARTS = b"\n---\n"
_GROUP_FILES = ("memory.events", "memory.oom_control", "memory.peak", "memory.current", "memory.stat", "cgroup.procs")


def process_status(data: bytes) -> None:
    """`/proc/<pid>/stat`, and the kernel's answer about sockets."""
    parse_stat(data)
    try:
        socket_owners.read_packet(data, 80, {})
    except OSError:
        pass
    socket_owners.read_table(data.decode("ascii", "replace").splitlines(), 80)


def groups(data: bytes) -> None:
    """Control groups: where we are, what is mounted, and a group's own files."""
    root = scratch("root")
    (root / "proc/self").mkdir(parents=True)
    own, mounts, *files = (*data.split(_PARTS), b"")
    (root / "proc/self/cgroup").write_bytes(own)
    (root / "proc/self/mountinfo").write_bytes(mounts)
    (root / "sys/fs/cgroup").mkdir(parents=True)
    container_cgroup.remove(container_cgroup.create("x", 1000, 1024, root), timeout=0.0)
    group = root / "group"
    group.mkdir()
    for name, content in zip(_GROUP_FILES, files, strict=False):
        (group / name).write_bytes(content)
    folders = [str(group)]
    numbers = [container_cgroup.oom_kills(folders), container_cgroup.peak(folders), container_cgroup.usage(folders)]
    assert all(number is None or number >= 0 for number in numbers)
    assert all(pid >= 0 for pid in container_cgroup.processes(folders))
    _measured(root, b"", b"")


def hardware(data: bytes) -> None:
    """Memory, limits on it, and GPUs as the driver and nvidia-smi tell of them."""
    memory, group, smi, driver = (*data.split(_PARTS), b"", b"", b"")[:4]
    root = scratch("root")
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_bytes(group)
    parse_gpu_list(smi.decode("utf-8", "replace"))
    _measured(root, memory, driver)


def _measured(root: Path, memory: bytes, driver: bytes) -> None:
    (root / "proc/meminfo").write_bytes(memory)
    folder = root / "proc/driver/nvidia/gpus/0"
    folder.mkdir(parents=True)
    (folder / "information").write_bytes(driver)
    (root / "dev").mkdir(exist_ok=True)
    (root / "dev/nvidia0").touch()
    settings = LocalSettings()
    found = measure(settings, with_gpus=bool(driver), root=root)
    assert found.memory >= 0
    assert found.memory_origin.isprintable()


def changes(data: bytes) -> None:
    """The kernel's word of what changed in a folder."""
    watch = Inotify()
    os.close(watch.descriptor)
    watch.descriptor, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    watch._paths[1] = Path("/x")
    try:
        os.write(writing, data[:60_000])
        for path, _ in watch.read():
            assert path is None or path.is_absolute()
    finally:
        os.close(writing)
        watch.close()


def _change(name: bytes) -> bytes:
    return struct.pack("iIII", 1, InotifyMask.MODIFY, 0, len(name)) + name


_STAT = b"12 (a) b) S 1 12 12 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 1000 100 18446744073709551615 0\n"
_TABLE = (
    b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    b"   0: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 34567 1 0 100 0 0 10\n"
)
_CGROUP_1 = b"5:memory:/user\n4:cpu,cpuacct:/\n0::/init\n"
_MOUNTS = (
    b"30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw\n"
    b"31 24 0:27 /a /sys/fs/cgroup rw shared:9 - cgroup cgroup rw,memory\n"
)
_UUID = b"GPU-8ea2f3b4-1c2d-4e5f-a6b7-0123456789ab"

TARGETS = (
    Target(name="process", run=process_status, errors=(), seeds=lambda: [_STAT, _TABLE, bytes(72)], longest=512),
    Target(
        name="cgroup",
        run=groups,
        errors=(),
        seeds=lambda: [
            _PARTS.join([_CGROUP_1, _MOUNTS, b"oom 1\noom_kill 2\n", b"oom_kill 3\n", b"4096\n", b"8192\n"])
            + _PARTS
            + b"inactive_file 100\n"
            + _PARTS
            + b"1\n2\n",
            _PARTS.join([b"0::/\n", _MOUNTS]),
        ],
        tokens=(
            b"memory",
            b"0::/",
            b" - cgroup2 ",
            b"max",
            "²".encode(),
            _PARTS,
            b"oom_kill ",
            b"total_inactive_file ",
        ),
    ),
    Target(
        name="hardware",
        run=hardware,
        errors=(),
        seeds=lambda: [
            _PARTS.join(
                [
                    b"MemTotal:       16384000 kB\nMemFree: 1 kB\n",
                    _CGROUP_1,
                    b"GPU 0: NVIDIA A100 (UUID: " + _UUID + b")\n",
                    b"Model: NVIDIA\nGPU UUID: " + _UUID + b"\nDevice Minor: \t 0\n",
                ]
            )
        ],
        tokens=(_UUID, b"MemTotal:", b"Device Minor:", "²".encode(), _PARTS),
    ),
    Target(
        name="changes",
        run=changes,
        errors=(),
        seeds=lambda: [
            _change(b"worker-0.s1.t1.out\0\0"),
            _change(b"") + _change(b"\xff/../x\0"),
            struct.pack("iIII", -1, InotifyMask.OVERFLOW, 0, 0),
        ],
        longest=256,
    ),
)
