"""What holds for every test: a user's own settings stay out, and no test is skipped unnoticed.

A test that is skipped tests nothing, and a skip in a green run is easily overlooked. So in CI (``CI=true``)
or with ``--strict-skips`` a skip counts as a failure unless ``tests/meta/allowed_skips.txt`` lists the test
with a reason.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.mini_clusters import Clusters
    from tony.mini.cluster import MiniCluster

# How long an example takes says something of the machine only: no test may depend on it.
settings.register_profile("tony", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tony")

ALLOWED_SKIPS = Path(__file__).parent / "meta" / "allowed_skips.txt"

isolated_folder = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-skips",
        action="store_true",
        default=os.environ.get("CI", "").lower() in {"1", "true", "yes"},
        help="fail if a test is skipped that tests/meta/allowed_skips.txt does not list (always so in CI)",
    )
    parser.addoption("--long", action="store_true", help="run the tests marked `long` as well: make test-all")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[isolated_folder] = isolate_from_user()
    config.pluginmanager.register(SkipWatch(strict=config.getoption("strict_skips")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves long tests out of an ordinary run. Each has a short sample of itself beside it that always runs."""
    if config.getoption("long"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[isolated_folder], ignore_errors=True)


def isolate_from_user() -> Path:
    """Points everything that Tony reads or writes for its user at an empty folder, for subprocesses too.

    The folder's path is short: Unix sockets below it must stay under 108 bytes.
    """
    folder = Path(tempfile.mkdtemp(prefix="tony-tests-"))
    for name in [name for name in os.environ if name.startswith("TONY_")]:
        del os.environ[name]
    os.environ["TONY_HOME"] = str(folder / "home")
    os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
    return folder


@pytest.fixture(scope="session")
def clusters() -> Iterator[Clusters]:
    """Real clusters with other options than the shared one's: `clusters.with_options(options(nodes=1))`."""
    from tests.mini_clusters import Clusters, why_not

    reason = why_not()
    if reason:
        pytest.skip(reason)
    found = Clusters()
    yield found
    found.stop()


@pytest.fixture
def cluster(clusters: Clusters) -> MiniCluster:
    """A real Hadoop, all daemons living: three nodes of 4 GB and 8 vcores, shared by all tests of a run.

    What a test leaves on it others find: use names of your own in HDFS, and end what you start.
    """
    return clusters.shared()


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
    """Whether a listed beginning covers the test: by its folder, file, class or name."""
    return any(
        test_id == prefix or test_id.startswith((f"{prefix}/", f"{prefix}::", f"{prefix}[")) for prefix in allowed
    )


class SkipWatch:
    """Notes every skip, of a test or of a whole file, and fails a strict run for those not allowed."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.allowed = read_allowed_skips(ALLOWED_SKIPS.read_text(encoding="utf-8").splitlines())
        self.refused: dict[str, str] = {}  # test id -> the reason it gave

    def note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        # An expected failure is reported as skipped as well, but it did run.
        if report.skipped and not hasattr(report, "wasxfail") and not is_allowed(report.nodeid, self.allowed):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.refused[report.nodeid] = reason.removeprefix("Skipped: ")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.note(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.strict and self.refused and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.strict or not self.refused:
            return
        terminalreporter.section("skips that nobody allowed", red=True)
        for test_id, reason in self.refused.items():
            terminalreporter.line(f"{test_id}: {reason}")
        terminalreporter.line(
            "Each is a failure here: install what the test needs, or list it with a reason in "
            "tests/meta/allowed_skips.txt."
        )
