"""Mounts as the kernel lists them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tony.mini.kubernetes.mounts import Mount, list_writable_mounts

MOUNTINFO = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
28 27 254:1 / /mnt/my\040disk rw,nosuid,nodev,noatime,idmapped master:2 shared:3 - xfs /dev/vdb rw
29 27 254:2 / /boot ro,relatime - ext4 /dev/vdc rw
30 22 0:23 / /proc/sys/fs/binfmt_misc rw - binfmt_misc none rw
31 27 0:24 / /processes rw - tmpfs tmpfs rw
"""


def test_writable_mounts() -> None:
    """Not those that are read-only, nor excluded ones; with the options that a remount has to name."""
    assert list(list_writable_mounts(MOUNTINFO, (Path("/proc"),))) == [
        Mount(number=27, path=Path("/"), options=("relatime",)),
        Mount(number=28, path=Path("/mnt/my disk"), options=("nosuid", "nodev", "noatime")),
        Mount(number=31, path=Path("/processes"), options=()),
    ]


def test_a_mount_is_visible_at_its_path() -> None:
    """Of several with the same path only the last one is."""
    mounts = list_writable_mounts(Path("/proc/self/mountinfo").read_text(), ())
    *_, proc = [mount for mount in mounts if mount.path == Path("/proc")]
    assert proc.is_visible
    assert not replace(proc, path=Path("/")).is_visible
    assert not replace(proc, path=Path("/none")).is_visible
