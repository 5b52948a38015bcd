"""Control groups, in folders that look like those of the kernel."""

from __future__ import annotations

from pathlib import Path

from tony.mini.kubernetes.cgroups import create_cgroup, list_hierarchies, remove_cgroups


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


def test_pods_are_not_starved_by_the_processes_of_a_busy_machine(tmp_path: Path) -> None:
    """The kernel creates the files of a group; here they are there before."""
    (tmp_path / "cpu" / "mini").mkdir(parents=True)
    (tmp_path / "cpu" / "cgroup.procs").touch()
    shares = tmp_path / "cpu" / "mini" / "cpu.shares"
    shares.write_text("1024\n")
    create_cgroup("mini", tmp_path)
    assert shares.read_text() == "8192"


def test_control_group_of_version_2(tmp_path: Path) -> None:
    """Its parent delegates the controllers that the kubelet wants."""
    for name in ("cgroup.controllers", "cgroup.procs"):
        (tmp_path / name).touch()
    create_cgroup("mini", tmp_path)
    assert [tmp_path] == list(list_hierarchies(tmp_path))
    assert {"+cpu", "+memory", "+pids"} <= set((tmp_path / "cgroup.subtree_control").read_text().split())
    assert (tmp_path / "mini").is_dir()


def test_the_groups_of_all_nodes_are_removed(tmp_path: Path) -> None:
    """Those of other clusters stay."""
    for name in ("memory", "memory/mini-1/kubepods", "memory/mini-1-2", "memory/mini-3"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "memory" / "cgroup.procs").touch()
    remove_cgroups("mini-1", tmp_path)
    assert ["cgroup.procs", "mini-3"] == sorted(path.name for path in (tmp_path / "memory").iterdir())
