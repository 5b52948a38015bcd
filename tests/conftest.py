"""What holds for every test: a user's own settings stay out, and no test is skipped unnoticed.

A test that is skipped tests nothing, and a skip in a green run is easily overlooked. So in CI (``CI=true``)
or with ``--strict-skips`` a skip counts as a failure unless ``tests/meta/allowed_skips.txt`` lists the test
with a reason.
"""

from __future__ import annotations

import gc
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.change_detection import find_changed_packages, is_due
from tests.kubernetes_build import TIMEOUT_SECONDS, wait_for_software
from tests.support.coroutines import pytest_pyfunc_call as pytest_pyfunc_call
from tony.mini.kubernetes.software import find_software

if TYPE_CHECKING:
    from tests.mini_clusters import Clusters
    from tests.mini_kubernetes import SharedKubernetes
    from tony.mini.cluster import MiniCluster
    from tony.mini.kubernetes.cluster import KubernetesCluster

# How long an example takes says something of the machine only: no test may depend on it.
settings.register_profile("tony", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tony")

ROOT = Path(__file__).parents[1]
ALLOWED_SKIPS = ROOT / "tests" / "meta" / "allowed_skips.txt"
#: Folders of tests that start no process; `make test-fast` runs those of them that are not slow.
FAST = ("advice", "config", "core", "hadoop", "history", "meta", "model", "protocol", "rpc", "storage", "web")
#: The groups that take longest, the longest first: beginnings of their names (`group_of`).
LONGEST = (
    "shared-cluster",
    "other-clusters",
    "shared-kubernetes",
    "kubernetes-scenarios",
    "tests/scenarios",
    "tests/e2e",
    "tests/failure_modes",
    "tests/bench",
    "tests/frameworks",
    "tests/tutorials",
    "tests/fuzz",
)

#: Set in a run that began before Kubernetes was built: the tests that need it come after the others that take long.
KUBERNETES_LATE = "TEST_KUBERNETES_LATE"

isolated_folder = pytest.StashKey[Path]()
running_clusters: pytest.StashKey[Clusters | SharedKubernetes] = pytest.StashKey()
running_kubernetes: pytest.StashKey[Clusters | SharedKubernetes] = pytest.StashKey()
#: Group of tests -> its clusters, which are stopped when its last test has run.
CLUSTER_GROUPS = {
    "shared-cluster": running_clusters,
    "other-clusters": running_clusters,
    "shared-kubernetes": running_kubernetes,
    "kubernetes-scenarios": running_kubernetes,
}
#: They run in two processes, each with a cluster of its own.
KUBERNETES_GROUPS = ("shared-kubernetes", "kubernetes-scenarios")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-skips",
        action="store_true",
        default=os.environ.get("CI", "").lower() in {"1", "true", "yes"},
        help="fail if a test is skipped that tests/meta/allowed_skips.txt does not list (always so in CI)",
    )
    parser.addoption("--fast", action="store_true", help="run the tests of FAST that start nothing: make test-fast")
    parser.addoption("--long", action="store_true", help="run the tests marked `long` as well: make test-all")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[isolated_folder] = isolate_from_user()
    if not hasattr(config, "workerinput") and find_software(os.environ) is None:
        os.environ[KUBERNETES_LATE] = "1"  # the processes of a parallel run inherit it: all must have the same order
    config.pluginmanager.register(SkipWatch(strict=config.getoption("strict_skips")))


@pytest.hookimpl(tryfirst=True)  # before xdist looks at groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this run is not for, and say which tests run in one process of a parallel run."""
    everything = config.getoption("long") or is_named(config)
    changed = None if everything else find_changed_packages(ROOT)
    left_out = [
        item
        for item in items
        if (mark := item.get_closest_marker("on_change"))
        and not is_due(item.nodeid.partition("::")[0], mark.args, changed)
    ]
    if config.getoption("long") is False:
        left_out += [item for item in items if item not in left_out and item.get_closest_marker("long")]
    if config.getoption("fast"):
        left_out = [item for item in items if not is_fast(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        unwanted = set(left_out)
        items[:] = [item for item in items if item not in unwanted]
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(group_of(item)))
    items.sort(key=lambda item: rank_of(group_of(item)))
    for group in KUBERNETES_GROUPS if KUBERNETES_LATE in os.environ else ():
        if first := next((item for item in items if group_of(item) == group), None):
            first.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS + 300))  # it waits for the build


def is_named(config: pytest.Config) -> bool:
    """Return True if the command line names files or tests: all of theirs run."""
    return any(argument.partition("::")[0].endswith(".py") for argument in config.args)


def is_fast(item: pytest.Item) -> bool:
    """Return True if the test is pure, or nearly so."""
    marks = {mark.name for mark in item.iter_markers()}
    return item.nodeid.split("/")[1] in FAST and marks.isdisjoint({"e2e", "framework", "long", "slow"})


def group_of(item: pytest.Item) -> str:
    """The tests of one group run in one process, one after the other: a file, or all that share a cluster.

    Files whose own fixtures start the shared cluster name its group: `pytest.mark.xdist_group("shared-cluster")`.
    """
    if mark := item.get_closest_marker("xdist_group"):
        return str(mark.args[0])
    fixtures = getattr(item, "fixturenames", ())
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if "cluster" in fixtures or parameters.get("scheduler") == "yarn":  # tests/scenarios: one test for all schedulers
        return "shared-cluster"
    if "clusters" in fixtures:
        return "other-clusters"
    if parameters.get("scheduler") == "kubernetes":
        return "kubernetes-scenarios"
    if "kubernetes" in fixtures:
        return "shared-kubernetes"
    return item.nodeid.partition("::")[0]


def rank_of(group: str) -> int:
    """What takes longest begins first, so that no process is left alone with it at the end."""
    if group in KUBERNETES_GROUPS and KUBERNETES_LATE in os.environ:
        return len(LONGEST)
    return next((number for number, name in enumerate(LONGEST) if group.startswith(name)), len(LONGEST) + 1)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """As many processes as cores and half as many more, for many tests wait; each has 2.5 GiB of memory."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return max(1, min(cores + (cores + 1) // 2, int(memory / 2.5)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how a failed test is run again, alone."""
    failed = [*terminalreporter.stats.get("failed", []), *terminalreporter.stats.get("error", [])]
    if failed:
        terminalreporter.section("again, one by one")
        for test_id in sorted({report.nodeid.partition("@")[0] for report in failed}):
            terminalreporter.line(f"scripts/test {shlex.quote(test_id)}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector from reading the tests themselves, which stay: with ten thousand, that takes long."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Stop the clusters after the last test of their group: idle daemons take a twentieth of a core from the rest.

    Not between two tests of one file, whose fixtures may still use them.
    """
    yield
    group = group_of(item)
    if group in CLUSTER_GROUPS and (nextitem is None or (group_of(nextitem) != group and nextitem.path != item.path)):
        found = item.config.stash.get(CLUSTER_GROUPS[group], None)
        if found is not None:
            found.stop()


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[isolated_folder], ignore_errors=True)


def isolate_from_user() -> Path:
    """Points everything that Tony reads or writes for its user at an empty folder, for subprocesses too.

    The folder's path is short: Unix sockets below it must stay under 108 bytes.
    """
    folder = Path(tempfile.mkdtemp(prefix="tony-tests-"))
    for name in [name for name in os.environ if name.startswith("TONY_")]:
        del os.environ[name]
    for name in ("COLUMNS", "LINES"):  # readline, which pytest imports, sets them for the processes of pytest-xdist
        os.environ.pop(name, None)
    os.environ["TONY_HOME"] = str(folder / "home")
    os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
    return folder


@pytest.fixture(scope="session")
def clusters(pytestconfig: pytest.Config) -> Iterator[Clusters]:
    """Real clusters with other options than the shared one's: `clusters.with_options(options(nodes=1))`."""
    from tests.mini_clusters import Clusters, why_not

    reason = why_not()
    if reason:
        pytest.skip(reason)
    pytestconfig.stash[running_clusters] = found = Clusters()
    yield found
    found.stop()


@pytest.fixture
def cluster(clusters: Clusters) -> MiniCluster:
    """A real Hadoop, all daemons living: three nodes of 4 GB and 8 vcores, shared by all tests of a run.

    What a test leaves on it others find: use names of your own in HDFS, and end what you start.
    """
    return clusters.shared()


@pytest.fixture(scope="session")
def shared_kubernetes(pytestconfig: pytest.Config) -> Iterator[SharedKubernetes]:
    """What `kubernetes` is started and mended by."""
    from tests.mini_kubernetes import SharedKubernetes

    wait_for_software(os.environ)
    pytestconfig.stash[running_kubernetes] = found = SharedKubernetes()
    yield found
    found.stop()


@pytest.fixture
def kubernetes(shared_kubernetes: SharedKubernetes) -> KubernetesCluster:
    """A real Kubernetes of one node, all daemons running, shared by all tests of a process.

    Each test uses a namespace of its own: `tests.kubernetes.lab`. Jobs may use its namespace `default`, too.
    """
    return shared_kubernetes.mend()


def read_allowed_skips(lines: Iterable[str]) -> dict[str, str]:
    """The list of tests that may be skipped: beginning of a test id -> reason.

    Raises:
        pytest.UsageError: A line without a reason.
    """
    allowed: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        prefix, _, reason = (part.strip() for part in line.partition(" | "))
        if not prefix or not reason:
            raise pytest.UsageError(f"{ALLOWED_SKIPS}:{number}: write `test id | reason`, not {line.strip()!r}")
        allowed[prefix] = reason
    return allowed


def is_allowed(test_id: str, allowed: Iterable[str]) -> bool:
    """Whether a listed beginning covers the test: by its folder, file, class or name, or by folder and parameter."""
    parameters = set(test_id.partition("[")[2].rstrip("]").split("-"))

    def covers(prefix: str) -> bool:
        folder, _, parameter = prefix.rstrip("]").partition("[")
        if parameter and "::" not in folder:
            return test_id.startswith(f"{folder}/") and parameter in parameters
        return test_id == prefix or test_id.startswith((f"{prefix}/", f"{prefix}::", f"{prefix}["))

    return any(map(covers, allowed))


class SkipWatch:
    """Notes every skip, of a test or of a whole file, and fails a strict run for those not allowed."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.allowed = read_allowed_skips(ALLOWED_SKIPS.read_text(encoding="utf-8").splitlines())
        self.refused: dict[str, str] = {}  # test id -> the reason it gave

    def note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        # An expected failure is reported as skipped as well, but it did run.
        test_id = report.nodeid.partition("@")[0]  # what follows is the group of a parallel run
        if report.skipped and not hasattr(report, "wasxfail") and not is_allowed(test_id, self.allowed):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.refused[test_id] = reason.removeprefix("Skipped: ")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.note(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a process of a parallel run noted: skips of whole files reach its own reports only."""
        self.refused.update(getattr(node, "workeroutput", {}).get("refused", {}))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["refused"] = self.refused
        if self.strict and self.refused and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.strict or not self.refused:
            return
        terminalreporter.section("skips that are not allowed", red=True)
        for test_id, reason in self.refused.items():
            terminalreporter.line(f"{test_id}: {reason}")
        terminalreporter.line(
            "Each is a failure here: install what the test needs, or list it with a reason in "
            "tests/meta/allowed_skips.txt."
        )
