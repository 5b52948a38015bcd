"""Control groups of both versions, in folder trees made for the test and, where permitted, in the real one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tony.linux import container_cgroup, process

MIB = 1 << 20


def tree(root: Path, files: dict[str, str]) -> Path:
    """Folders and files as the kernel would show them below `root`."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    """A machine with version 1 beside an empty version 2, as many still are; our group is /user/me."""
    group = {
        "sys/fs/cgroup/memory/user/me/tony/job-1": {
            "memory.limit_in_bytes": "9223372036854771712\n",
            "memory.memsw.limit_in_bytes": "9223372036854771712\n",
            "memory.usage_in_bytes": "4096\n",
            "memory.max_usage_in_bytes": "8192\n",
            "memory.stat": "cache 4096\ntotal_cache 4096\ninactive_file 1\ntotal_inactive_file 1024\n",
            "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
            "cgroup.procs": "",
        },
        "sys/fs/cgroup/cpu/tony/job-1": {"cpu.shares": "1024\n", "cgroup.procs": ""},
    }
    return tree(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/user/me\n2:cpu,cpuacct:/\n1:name=systemd:/\n0::/\n",
            "proc/self/mountinfo": (
                "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
                "32 31 0:29 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
                "33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                "34 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
            ),
            **{f"{folder}/{name}": text for folder, files in group.items() for name, text in files.items()},
        },
    )


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    """A machine with version 2 alone; our group is one that may pass on the memory controller."""
    above = "sys/fs/cgroup/user.slice/me"
    return tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/user.slice/me\n",
            "proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n",
            f"{above}/cgroup.controllers": "cpu memory pids\n",
            f"{above}/cgroup.subtree_control": "cpu memory\n",
            f"{above}/cgroup.procs": "",
            f"{above}/tony/cgroup.controllers": "cpu memory\n",
            f"{above}/tony/cgroup.subtree_control": "cpu memory\n",
            f"{above}/tony/job-1/memory.max": "max\n",
            f"{above}/tony/job-1/memory.swap.max": "max\n",
            f"{above}/tony/job-1/memory.current": "4096\n",
            f"{above}/tony/job-1/memory.stat": "anon 1\nfile 2048\ninactive_file 1024\n",
            f"{above}/tony/job-1/memory.peak": "8192\n",
            f"{above}/tony/job-1/memory.events": "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 0\n",
            f"{above}/tony/job-1/cpu.weight": "100\n",
            f"{above}/tony/job-1/cgroup.procs": "",
            f"{above}/tony/job-1/cgroup.kill": "",
        },
    )


def content(path: Path) -> str:
    return path.read_text().split("\n")[0]


def test_v1_limits_memory_with_swap_and_weighs_cpu(v1: Path) -> None:
    """One folder per controller, below our own group, with slashes of the name replaced."""
    memory, cpu = v1 / "sys/fs/cgroup/memory/user/me/tony/job-1", v1 / "sys/fs/cgroup/cpu/tony/job-1"
    assert (str(memory), str(cpu)) == container_cgroup.create("job/1", 64 * MIB, 2048, root=v1)
    assert content(memory / "memory.limit_in_bytes").startswith(str(64 * MIB))
    assert content(memory / "memory.memsw.limit_in_bytes").startswith(str(64 * MIB))
    assert content(cpu / "cpu.shares") == "2048"


def test_v2_limits_memory_and_forbids_swap(v2: Path) -> None:
    """The one folder has limit, no swap and the weight that the kernel would compute from shares."""
    folder = v2 / "sys/fs/cgroup/user.slice/me/tony/job-1"
    assert (str(folder),) == container_cgroup.create("job-1", 64 * MIB, 2048, root=v2)
    assert content(folder / "memory.max").startswith(str(64 * MIB))
    assert content(folder / "memory.swap.max").startswith("0")
    assert content(folder / "cpu.weight").startswith("79")


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_counters_are_read_in_both_versions(version: str, request: pytest.FixtureRequest) -> None:
    """Kills, peak and usage (without idle file contents) come from where each version keeps them."""
    folders = container_cgroup.create("job-1", None, None, root=request.getfixturevalue(version))
    assert (container_cgroup.oom_kills(folders), container_cgroup.peak(folders), container_cgroup.usage(folders)) == (
        3,
        8192,
        3072,
    )


def test_the_v1_peak_is_reset(v1: Path) -> None:
    """The next task attempt's peak is its own."""
    folders = container_cgroup.create("job-1", None, None, root=v1)
    container_cgroup.reset_peak(folders)
    assert (Path(folders[0]) / "memory.max_usage_in_bytes").read_text().startswith("0")


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_entering_and_members(version: str, request: pytest.FixtureRequest) -> None:
    """A process is entered into every folder; members of groups below count as well."""
    folders = container_cgroup.create("job-1", None, None, root=request.getfixturevalue(version))
    container_cgroup.enter(folders, 4711)
    assert {content(Path(folder) / "cgroup.procs") for folder in folders} == {"4711"}
    tree(Path(folders[0]), {"below/cgroup.procs": "4712\n"})
    assert container_cgroup.processes(folders) == [4711, 4712]


def test_v2_kills_a_group_at_once(v2: Path) -> None:
    """Where the kernel kills whole groups, that is used."""
    (folder,) = folders = container_cgroup.create("job-1", None, None, root=v2)
    (Path(folder) / "cgroup.procs").write_text(f"{2**22 + 1}\n")
    assert container_cgroup.kill(folders) == [2**22 + 1]
    assert content(Path(folder) / "cgroup.kill") == "1"


def test_v2_group_with_processes_looks_above(v2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own group may not pass on controllers while we are in it: the next delegated one above is used."""
    own = "sys/fs/cgroup/user.slice/me/app.scope"
    tree(
        v2,
        {
            "proc/self/cgroup": "0::/user.slice/me/app.scope\n",
            f"{own}/cgroup.controllers": "cpu memory\n",
            f"{own}/cgroup.procs": "1\n",
        },
    )
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert container_cgroup.create("job-1", MIB, None, root=v2) == (str(v2 / "sys/fs/cgroup/user.slice/me/tony/job-1"),)


def test_v2_root_leaves_groups_alone_that_are_not_delegated(v2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root could write anywhere, but a group without the manager's mark is the manager's."""
    tree(v2, {"proc/self/cgroup": "0::/user.slice/me/app.scope\n"})
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert container_cgroup.create("job-1", MIB, None, root=v2) == ()


def test_nothing_is_made_where_memory_is_not_controlled(v1: Path, tmp_path: Path) -> None:
    """No memory controller, or no groups at all: the caller measures."""
    (v1 / "proc/self/cgroup").write_text("2:cpu,cpuacct:/\n0::/\n")
    assert container_cgroup.create("job-1", MIB, None, root=v1) == ()
    assert container_cgroup.create("job-1", MIB, None, root=tmp_path / "nowhere") == ()


def test_v1_without_permission_makes_nothing(v1: Path) -> None:
    """A limit that cannot be written means no group, and no folder left behind."""
    (v1 / "sys/fs/cgroup/memory/user/me/tony/job-1/memory.limit_in_bytes").unlink()
    assert container_cgroup.create("job-1", MIB, None, root=v1) == ()


def test_no_folders_means_nothing_to_do() -> None:
    """All functions take what `create` answered, nothing included."""
    assert container_cgroup.oom_kills(()) == 0
    assert container_cgroup.peak(()) is None
    assert container_cgroup.usage(()) is None
    assert container_cgroup.processes(()) == []
    assert container_cgroup.kill(()) == []
    assert container_cgroup.remove(())
    container_cgroup.enter((), 0)


# --- the machine we run on ----------------------------------------------------------------------------------------


@pytest.fixture
def real() -> Iterator[tuple[str, ...]]:
    folders = container_cgroup.create(f"test/{os.getpid()}-{os.urandom(3).hex()}", 64 * MIB, 512)
    if not folders:
        pytest.skip("no control group with a memory limit may be made here")
    yield folders
    container_cgroup.kill(folders)
    assert container_cgroup.remove(folders)
    assert not Path(folders[0]).exists()


def start_in(folders: tuple[str, ...], code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-S", "-c", code],
        preexec_fn=lambda: container_cgroup.enter(folders, 0),
        stdout=subprocess.PIPE,
        text=True,
    )


def test_real_group_kills_an_eater(real: tuple[str, ...]) -> None:
    """A process that wants more than the limit is killed by the kernel, and counted."""
    before = container_cgroup.oom_kills(real)
    with start_in(real, "x = [bytearray(b'x') * (1 << 20) for _ in range(200)]") as eater:
        assert eater.wait(60) == -signal.SIGKILL
    assert container_cgroup.oom_kills(real) == before + 1
    peak = container_cgroup.peak(real)
    assert peak is None or 32 * MIB < peak <= 64 * MIB


def test_real_group_is_killed_whole(real: tuple[str, ...]) -> None:
    """Daemons without a marker, of whatever session, die with the group; then it can be removed."""
    code = (
        "import os, time; os.fork() or (os.setsid(), os.fork()); os.write(1, b'%d\\n' % os.getpid()); time.sleep(600)"
    )
    child = start_in(real, code)
    assert child.stdout is not None
    pids = {int(child.stdout.readline()) for _ in range(3)}
    assert set(container_cgroup.processes(real)) == pids
    assert set(container_cgroup.kill(real)) == pids
    assert child.wait(20) == -signal.SIGKILL
    child.stdout.close()
    assert (
        process.kill_until_none(lambda: container_cgroup.processes(real), 20.0) <= 3
    )  # the dead leave it a moment later
    assert container_cgroup.processes(real) == []


def test_hits_of_a_limit_of_processes_are_counted_in_the_group_and_above_it(v2: Path) -> None:
    above = v2 / "sys/fs/cgroup/user.slice"
    own = above / "me/tony/job-1"
    assert container_cgroup.count_process_limit_hits([str(own)], v2) == 0
    (above / "pids.events").write_text("max 4\n")
    assert container_cgroup.count_process_limit_hits([], v2) == 4
    (own / "pids.events").write_text("max 5\n")
    assert container_cgroup.count_process_limit_hits([str(own)], v2) == 5


def test_hits_of_a_limit_of_processes_with_version_1(v1: Path) -> None:
    mounts, groups = v1 / "proc/self/mountinfo", v1 / "proc/self/cgroup"
    mounts.write_text(f"{mounts.read_text()}35 31 0:32 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n")
    groups.write_text(f"7:pids:/user\n{groups.read_text()}")
    tree(v1, {"sys/fs/cgroup/pids/user/pids.events": "max 6\n"})
    assert container_cgroup.count_process_limit_hits([], v1) == 6
