"""LinkedIn TonY's end-to-end table through its own flags and `tony.xml`, on a real cluster.

What each case is, and where it differs:

| Number | Here |
|---|---|
| E1 E4 E6 E12 E21 | as LinkedIn TonY has them |
| E22 | a driver of the user's that fails; there is none of ours that could |
| E23 | the rendezvous store of ours; no test double is needed |
| E24 | the driver is the user's, with the file protocol of LinkedIn TonY |
| E34 | one entry of the class path is missing |

The others, and these with job files: tests/scenarios/test_scenarios.py.
Those of one wave run side by side. `main`, `-1` and the rest are said in LinkedIn TonY's own words: 255 is -1.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from tests.change_detection import CLUSTER
from tests.mini_clusters import Clusters
from tests.yarn.lab import YarnLab
from tests.yarn.legacy_cases import CASES, PYTHON, SCRIPTS, Case
from tony.hadoop.configuration import Configuration
from tony.schedulers.yarn.cluster_clients import ClusterClients

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.xdist_group("shared-cluster"),
    pytest.mark.on_change(*CLUSTER, "config", "cli"),
]


class Old:
    """A user of LinkedIn TonY: a folder with scripts, an XML with what all their jobs share, a command line."""

    def __init__(self, lab: YarnLab) -> None:
        self.lab = lab
        self.place = f"/tmp/{lab.root.name}"
        for name, text in SCRIPTS.items():
            lab.file(f"src/{name}", text)
        self.folder = lab.root / "project"
        with zipfile.ZipFile(self.folder / "venv.zip", "w") as archive:
            archive.writestr("123.xml", "<xml/>")
        with zipfile.ZipFile(lab.root / "common.zip", "w") as archive:
            archive.writestr("common.txt", "common")
        conf = lab.cluster.conf
        self.presets = {
            "tony.application.security.enabled": "false",
            "tony.containers.resources": f"{lab.root}/common.zip",
            "tony.application.hdfs-conf-path": str(conf / "hdfs-site.xml"),
            "tony.application.yarn-conf-path": str(conf / "yarn-site.xml"),
        }
        with ClusterClients.from_configuration(Configuration.load(conf, {}), {}).web_files() as files:
            files.create(f"{self.place}/libs/one.jar", b"no jar")

    def xml(self, name: str, settings: Mapping[str, str]) -> Path:
        rows = "".join(
            f"  <property>\n    <name>{escape(key)}</name>\n    <value>{escape(value)}</value>\n  </property>\n"
            for key, value in settings.items()
        )
        path: Path = self.lab.file(name, f'<?xml version="1.0"?>\n<configuration>\n{rows}</configuration>\n')
        return path

    def words(self, name: str, case: Case) -> list[str]:
        conf = dict(case.conf)
        for key in case.conf:
            found = re.fullmatch(r"tony\.(\w+)\.instances", key)
            if found:
                conf[f"tony.{found[1]}.memory"] = "128"
        return [
            *("--src_dir", "src", "--conf_file", str(self.xml(f"{name}.xml", self.presets))),
            *("--hdfs_classpath", case.classpath.format(place=self.place)),
            *("--shell_env", f"OUT={self.lab.out}", "--shell_env", f"CASE={name}"),
            *(("--container_env", "SKIP_HADOOP_PATH=true") if case.skip else ()),
            *(word for key, value in conf.items() for word in ("--conf", f"{key}={value}")),
            *case.flags,
        ]

    def run(self, name: str, case: Case) -> subprocess.CompletedProcess[str]:
        """As at a shell, in the folder with the scripts."""
        done: subprocess.CompletedProcess[str] = self.lab.tony(
            "cluster-submit", *self.words(name, case), timeout=300, cwd=self.folder
        )
        return done

    def close(self) -> None:
        with ClusterClients.from_configuration(Configuration.load(self.lab.cluster.conf, {}), {}).web_files() as files:
            files.delete(self.place, recursive=True)


@pytest.fixture
def old(lab: YarnLab) -> Iterator[Old]:
    user = Old(lab)
    try:
        yield user
    finally:
        user.close()


class Wave:
    """All of CASES that are wanted, four at a time."""

    def __init__(self, old: Old) -> None:
        self.old = old
        self._pool = ThreadPoolExecutor(4)
        self._futures: dict[str, Future[subprocess.CompletedProcess[str]]] = {}

    def start(self, names: list[str]) -> None:
        for name in names:
            self._futures[name] = self._pool.submit(self.old.run, name, CASES[name])

    def result(self, name: str) -> subprocess.CompletedProcess[str]:
        return self._futures[name].result()

    def close(self) -> None:
        """Starts no further ones, and waits for the rest."""
        self._pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def wave(request: pytest.FixtureRequest, clusters: Clusters) -> Iterator[Wave]:
    """Started when the first test wants one of them."""
    folder = Path(tempfile.mkdtemp(prefix="tony-yarn-"))
    lab = YarnLab(folder, clusters.shared())
    old = Old(lab)
    wave = Wave(old)
    ids = [item.name.partition("[")[2].rstrip("]") for item in request.session.items if item.path == Path(__file__)]
    try:
        wave.start([name for name in CASES if name in ids])
        yield wave
        wave.close()
        lab.prove_clean()
    finally:
        wave.close()
        old.close()
        lab.close()
        shutil.rmtree(folder, ignore_errors=True)


def _job(text: str) -> str:
    found = re.search(r"application_\d+_\d+", text)
    assert found, text
    return found[0]


@pytest.mark.parametrize("name", CASES)
def test_case(wave: Wave, name: str) -> None:
    """The exit code is LinkedIn TonY's, 0 or -1; the tasks end as its table says."""
    case, done = CASES[name], wave.result(name)
    said = done.stdout + done.stderr
    assert done.returncode == case.code, said
    lab = wave.old.lab
    status = lab.status(_job(said))
    assert (status["am"], status["state"]) == (None, "failed" if case.code else "succeeded")
    if case.states:
        assert {task["task"]: task["state"] for task in status["tasks"]} == case.states
    if name == "e12":
        times = {role: [float(each) for each in lab.wrote(f"e12-{role}").split()] for role in _STAGES}
        assert times["worker"]
        # A ps may be stopped before its program runs: it is not waited for.
        assert max(times["db"][1], times["dbloader"][1]) < min([*times["worker"], *times["ps"]])
    if name in ("e23", "e24"):
        assert sorted(path.name for path in lab.out.glob(f"{name}-*")) == [f"{name}-0", f"{name}-1"]


_STAGES = ("db", "dbloader", "worker", "ps")


def test_e34_a_class_path_with_a_hole(old: Old) -> None:
    """The missing entry is told and left out, the other one is there; resources lie in the working directory."""
    case = Case(flags=("--executes", "see.py", *PYTHON), skip=False, classpath="{place}/gone,{place}/libs")
    done = old.run("e34", case)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{old.place}/gone" in done.stderr
    words = old.lab.wrote("e34").split()
    assert {"one.jar", "common.zip", "see.py"} <= set(words)
    assert "one.jar" in words[-1] or words[-1].startswith("./*"), words[-1]
