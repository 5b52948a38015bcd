"""What comes to the nodes with a job: our own interpreter where there is none, frameworks of one's own; each once."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.change_detection import CLUSTER
from tests.mini_clusters import options
from tests.yarn.lab import YarnLab, one_user, user
from tony.hadoop.hdfs.webhdfs import WebHdfs
from tony.hadoop.hdfs.webhdfs_messages import WebLogin
from tony.mini.cluster import MiniCluster
from tony.mini.daemon_requests import send_request
from tony.schedulers.shipping.python_archive import store_interpreter
from tony.storage.cache.object_cache import Cache

if TYPE_CHECKING:
    from tests.mini_clusters import Clusters

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.on_change(*CLUSTER, "client", "executor", "rpc", "storage"),
]

#: What a container needs of a node, and our job below.
_TOOLS = (
    *("bash", "cat", "chmod", "cp", "find", "gzip", "ln", "ls", "mkdir", "mv", "rm", "setsid", "sh", "sleep", "tar"),
    "uname",
)
CACHE = f"/user/{user()}/.tony/cache"


@pytest.fixture(scope="module")
def bare(clusters: Clusters) -> Iterator[MiniCluster]:
    """A cluster on whose usual node containers find no Python: their PATH is a folder with a few tools.

    Only what asks for the label `safe` goes to the other node, where there is one.
    """
    folder = Path(tempfile.mkdtemp(prefix="tony-bare-"))
    for tool in _TOOLS:
        (folder / tool).symlink_to(shutil.which(tool) or f"/bin/{tool}")
    # On a busy machine the interpreter needs its time to arrive; masters that keep silent for long are given up.
    settings = {
        "nm2:yarn.nodemanager.admin-env.PATH": str(folder),
        "yarn.am.liveness-monitor.expiry-interval-ms": "120000",
    }
    yield clusters.with_options(options(settings, {"safe": "nm1"}, nodes=2))
    shutil.rmtree(folder)


@pytest.fixture
def bare_lab(bare: MiniCluster) -> Iterator[YarnLab]:
    with one_user(lambda folder: YarnLab(folder, bare)) as made:
        yield made


def listed(lab: YarnLab, folder: str) -> dict[str, dict[str, int]]:
    """What lies in a folder of HDFS, by name."""
    answer = send_request(lab.cluster.state.address("nn.web"), "GET", f"/webhdfs/v1{folder}?op=LISTSTATUS")
    return {each["pathSuffix"]: each for each in json.loads(answer)["FileStatuses"]["FileStatus"]}


def test_no_python_on_the_nodes(bare_lab: YarnLab) -> None:
    """The job fails, and says host, PATH and setting; with the submitter's own interpreter it runs, sent once."""
    job = bare_lab.job('command = "echo $TASK_INDEX > $OUT/$TASK_INDEX"\n[roles.worker]\ninstances = 2\n')
    done = bare_lab.submit(job)
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert "tony: there is no python3 on host" in said, said
    assert "scheduler.yarn.python to its path" in said

    own = ("--set", "scheduler.yarn.python=own")
    done = bare_lab.submit(job, *own)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (bare_lab.wrote("0"), bare_lab.wrote("1")) == ("0\n", "1\n")

    before = listed(bare_lab, CACHE)
    assert [name for name in before if name.endswith(".tar.gz")] != []
    done = bare_lab.submit(job, *own)
    assert done.returncode == 0, done.stdout + done.stderr
    assert listed(bare_lab, CACHE) == before


def test_only_the_job_brings_a_python(bare_lab: YarnLab) -> None:
    """On nodes without any, that of the job's environment runs our programs, too, and is sent once for both."""
    cache = Cache(bare_lab.home / "cache")
    cache.prepare()
    archive = bare_lab.file("environment.tar.gz", "")
    shutil.copy(cache.find_object(store_interpreter(cache, "scheduler.yarn.python").digest), archive)
    sets = ("--set", "scheduler.yarn.python=environment")
    program = "python3 -c \"import os, sys; open(os.environ['OUT'] + '/0', 'w').write(sys.executable)\""
    done = bare_lab.submit(bare_lab.job(f'command = {json.dumps(program)}\npython = "environment.tar.gz"\n'), *sets)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "/bin/python3" in bare_lab.wrote("0")


def test_framework_of_ones_own(lab: YarnLab) -> None:
    """An installed plug-in is loaded in the application master and beside each program, on nodes that lack it."""
    adapter = lab.file(
        "site/leader_of_ours/adapter.py",
        """
        from leader_of_ours.names import NAME
        from tony.frameworks.framework_interface import Framework


        class Leader(Framework):
            name = "leader"

            def build_shared(self, spec, cluster):
                return {"leader": cluster.roles["worker"][0]}

            def environment(self, shared, task):
                return [{NAME: shared["leader"], "FROM": __file__} for _ in range(task.procs[task.task.role])]
        """,
    )
    lab.file("site/leader_of_ours/__init__.py", "")
    lab.file("site/leader_of_ours/names.py", 'NAME = "LEADER"\n')
    lab.file("site/leader_of_ours-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: leader_of_ours\nVersion: 1\n")
    lab.file(
        "site/leader_of_ours-1.dist-info/entry_points.txt",
        "[tony.frameworks]\nleader = leader_of_ours.adapter:Leader\n",
    )
    job = lab.job(
        'framework = "leader"\ncommand = "echo $LEADER $FROM > $OUT/$TASK_INDEX"\n[roles.worker]\ninstances = 2\n'
    )
    site = str(adapter.parents[1])
    path = os.pathsep.join(filter(None, [site, lab.env.get("PYTHONPATH")]))
    done = lab.submit(job, env={"PYTHONPATH": path})
    assert done.returncode == 0, done.stdout + done.stderr
    leaders = {lab.wrote(str(index)).split()[0] for index in range(2)}
    assert len(leaders) == 1
    assert leaders.pop().rpartition(":")[2].isdigit()
    for index in range(2):
        assert "/tony-framework/leader_of_ours/adapter.py" in lab.wrote(str(index))
        assert site not in lab.wrote(str(index))


def test_unused_objects_are_removed(lab: YarnLab) -> None:
    """An old object goes with the next submission; what the job itself uses is noted, its other times stay."""
    job = lab.job('command = "cat data.txt"\n', {"data.txt": "content"})
    assert lab.submit(job).returncode == 0
    month = 31 * 24 * 3600 * 1000
    with WebHdfs([f"http://{lab.cluster.state.address('nn.web')}"], WebLogin(user=user())) as files:
        used = {status.name: status for status in files.list(CACHE) if status.is_file}
        now = max(status.modified_ms for status in used.values())
        for name in used:
            files.set_times(f"{CACHE}/{name}", accessed_ms=1)
        files.create(f"{CACHE}/{'0' * 64}", b"unused", permission=0o600, overwrite=True)
        files.set_times(f"{CACHE}/{'0' * 64}", modified_ms=now - month, accessed_ms=now - month)
        files.delete(f"{CACHE}/.evicted", recursive=True)
    assert lab.submit(job).returncode == 0
    after = listed(lab, CACHE)
    assert "0" * 64 not in after
    assert {name: after[name]["modificationTime"] for name in used} == {
        name: status.modified_ms for name, status in used.items()
    }
