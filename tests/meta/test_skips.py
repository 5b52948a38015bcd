"""A skipped test is noticed: tests/conftest.py fails a strict run for every skip that is not listed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ALLOWED_SKIPS, is_allowed, read_allowed_skips

TESTS = Path(__file__).parents[1]

SKIPPING_TEST = """
import pytest

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


@pytest.mark.slow
def test_a_strict_run_fails_for_each_unlisted_skip(tmp_path: Path) -> None:
    """In CI, or on request, it names test and reason; a file that skips itself is a skip like any other."""
    tests = tmp_path / "tests"
    for folder in ("meta", "support"):
        (tests / folder).mkdir(parents=True)
    for name in ("conftest.py", "change_detection.py", "kubernetes_build.py", "support/coroutines.py"):
        shutil.copy(TESTS / name, tests / name)
    for name, text in {"it": SKIPPING_TEST, "listed": SKIPPING_TEST, "file": SKIPPED_FILE}.items():
        (tests / f"test_{name}.py").write_text(text)
    (tests / "meta" / "allowed_skips.txt").write_text("# why\n\ntests/test_listed.py | needs rare hardware\n")

    def run_pytest(ci: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), "tests"]
        environment = {**os.environ, "CI": ci}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    assert run_pytest(ci="").returncode == pytest.ExitCode.OK
    strict = run_pytest(ci="true")
    assert strict.returncode == pytest.ExitCode.TESTS_FAILED
    named = strict.stdout.partition("skips that are not allowed")[2]
    for size in (1, 2):
        assert f"tests/test_it.py::test_skips[{size}]: no such hardware" in named
    assert "tests/test_file.py: could not import" in named
    assert "test_expected_failure" not in named
    assert "test_listed" not in named


@pytest.mark.parametrize(
    ("listed", "test", "allowed"),
    [
        ("tests/test_it.py::test_skips", "tests/test_it.py::test_skips[1]", True),
        ("tests/folder", "tests/folder/test_it.py::test_skips", True),
        ("tests/test_it.py::test_ski", "tests/test_it.py::test_skips[1]", False),
        ("tests/folder[1]", "tests/folder/test_it.py::test_skips[a-1]", True),
        ("tests/folder[1]", "tests/folder/test_it.py::test_skips[2]", False),
    ],
)
def test_a_listed_beginning_ends_at_a_whole_part_of_the_id(listed: str, test: str, allowed: bool) -> None:
    assert is_allowed(test, [listed]) is allowed


def test_a_line_without_reason_is_refused() -> None:
    with pytest.raises(pytest.UsageError, match=r"allowed_skips.txt:1: write `test id \| reason`"):
        read_allowed_skips(["tests/test_it.py::test_skips"])


def test_listed_files_exist() -> None:
    """An entry whose file is gone is removed, lest it allow something else one day."""
    listed = read_allowed_skips(ALLOWED_SKIPS.read_text(encoding="utf-8").splitlines())
    files = [prefix.partition("::")[0].partition("[")[0] for prefix in listed]
    assert [file for file in files if not (TESTS.parent / file).exists()] == []
