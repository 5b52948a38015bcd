"""A skipped test is noticed: tests/conftest.py fails a strict run for every skip that is not listed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

SKIPPING_TEST = """
import pytest

def test_runs():
    pass

@pytest.mark.parametrize("size", [1, 2])
def test_skips(size):
    pytest.skip("no such hardware")

@pytest.mark.xfail(reason="known")
def test_expected_failure():
    assert False
"""

SKIPPED_FILE = """
import pytest

pytest.importorskip("a_module_that_does_not_exist")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project under the real conftest, with nothing allowed yet."""
    tests = tmp_path / "tests"
    for folder in ("meta", "support"):
        (tests / folder).mkdir(parents=True)
    for name in ("conftest.py", "change_detection.py", "support/coroutines.py"):
        shutil.copy(TESTS / name, tests / name)
    allow(tmp_path, "")
    return tmp_path


def allow(project: Path, lines: str) -> None:
    (project / "tests" / "meta" / "allowed_skips.txt").write_text(lines)


def run_pytest(project: Path, *arguments: str, ci: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(project), "tests", *arguments]
    environment = {**os.environ, "CI": ci}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.slow
class TestStrictSkips:
    def test_unlisted_skip_fails_in_ci_and_is_named(self, project: Path) -> None:
        """In CI a skip that is not listed turns a passing run into a failure that names test and reason."""
        (project / "tests" / "test_it.py").write_text(SKIPPING_TEST)
        result = run_pytest(project, ci="true")
        assert result.returncode == pytest.ExitCode.TESTS_FAILED
        assert "tests/test_it.py::test_skips[1]: no such hardware" in result.stdout
        assert "test_expected_failure" not in result.stdout

    def test_an_unlisted_skip_passes_outside_ci(self, project: Path) -> None:
        """A developer without the hardware still gets a passing run, unless they ask for strictness."""
        (project / "tests" / "test_it.py").write_text(SKIPPING_TEST)
        assert run_pytest(project).returncode == pytest.ExitCode.OK
        assert run_pytest(project, "--strict-skips").returncode == pytest.ExitCode.TESTS_FAILED

    def test_listed_skip_passes(self, project: Path) -> None:
        """A listed test may be skipped in CI, with all its parameters."""
        (project / "tests" / "test_it.py").write_text(SKIPPING_TEST)
        allow(project, "# why\n\ntests/test_it.py::test_skips | needs rare hardware\n")
        assert run_pytest(project, ci="true").returncode == pytest.ExitCode.OK

    def test_listed_name_does_not_cover_longer_names(self, project: Path) -> None:
        """A listed beginning ends at a whole part of the id, so no test is allowed by accident."""
        (project / "tests" / "test_it.py").write_text(SKIPPING_TEST)
        allow(project, "tests/test_it.py::test_ski | needs rare hardware\n")
        assert run_pytest(project, ci="true").returncode == pytest.ExitCode.TESTS_FAILED

    def test_listed_folder_and_parameter(self, project: Path) -> None:
        """A folder with a parameter covers its tests with that parameter, and no others."""
        folder = project / "tests" / "folder"
        folder.mkdir()
        (folder / "test_it.py").write_text(SKIPPING_TEST)
        allow(project, "tests/folder[1] | needs rare hardware\n")
        result = run_pytest(project, ci="true")
        assert result.returncode == pytest.ExitCode.TESTS_FAILED
        assert "tests/folder/test_it.py::test_skips[2]: " in result.stdout
        assert "tests/folder/test_it.py::test_skips[1]: " not in result.stdout

    def test_skipped_file_counts(self, project: Path) -> None:
        """A file that skips itself while it is imported is a skip like any other."""
        (project / "tests" / "test_it.py").write_text("def test_runs(): pass\n")
        (project / "tests" / "test_file.py").write_text(SKIPPED_FILE)
        result = run_pytest(project, ci="true")
        assert result.returncode == pytest.ExitCode.TESTS_FAILED
        assert "tests/test_file.py: could not import" in result.stdout

    def test_line_without_reason_is_refused(self, project: Path) -> None:
        """The list is of no use without reasons, so a line that gives none stops the run."""
        (project / "tests" / "test_it.py").write_text(SKIPPING_TEST)
        allow(project, "tests/test_it.py::test_skips\n")
        result = run_pytest(project)
        assert result.returncode == pytest.ExitCode.USAGE_ERROR
        assert "allowed_skips.txt:1: write `test id | reason`" in result.stderr


def test_listed_files_exist() -> None:
    """An entry whose file is gone is removed, lest it allow something else one day."""
    lines = (TESTS / "meta" / "allowed_skips.txt").read_text(encoding="utf-8").splitlines()
    listed = [line for line in lines if line and not line.startswith("#")]
    files = [line.partition(" | ")[0].partition("::")[0].partition("[")[0].strip() for line in listed]
    missing = [file for file in files if not (TESTS.parent / file).exists()]
    assert not missing
