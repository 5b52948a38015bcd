"""Control groups, in folders that look like those of the kernel."""

from __future__ import annotations

from pathlib import Path

from tony.mini.kubernetes.cgroups import create_cgroup, list_hierarchies


def test_control_groups_of_version_1(tmp_path: Path) -> None:
    """One in each hierarchy; that of cpuset takes processes only with CPUs and memory."""
    for name in ("cpuset", "memory"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    (tmp_path / "cpu").symlink_to("memory")
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0-1\n")
    (tmp_path / "cpuset" / "cpuset.mems").write_text("0\n")
    create_cgroup("mini", tmp_path)
    assert [tmp_path / "cpuset", tmp_path / "memory"] == list(list_hierarchies(tmp_path))
    assert "0-1\n" == (tmp_path / "cpuset" / "mini" / "cpuset.cpus").read_text()
    assert [] == list((tmp_path / "memory" / "mini").iterdir())


def test_control_group_of_version_2(tmp_path: Path) -> None:
    """Its parent delegates the controllers that the kubelet wants."""
    for name in ("cgroup.controllers", "cgroup.procs"):
        (tmp_path / name).touch()
    create_cgroup("mini", tmp_path)
    assert [tmp_path] == list(list_hierarchies(tmp_path))
    assert {"+cpu", "+memory", "+pids"} <= set((tmp_path / "cgroup.subtree_control").read_text().split())
    assert (tmp_path / "mini").is_dir()
