"""Tests in depth run when something that they test has changed, whatever the state of the clone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.change_detection import RECENT_COMMITS, find_changed_packages, is_due

AUTHOR = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
EARLIER, LATER = "src/tony/web/page.py", "src/tony/am/master.py"


@pytest.fixture(autouse=True)
def no_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_BASE", raising=False)


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), *AUTHOR, *arguments], check=True, capture_output=True)


def commit(root: Path, path: str, text: str = "") -> None:
    write(root, path, text)
    git(root, "add", "-A")
    git(root, "commit", "-m", path)


def write(root: Path, path: str, text: str = "") -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text or path, encoding="utf-8")


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository in which the last commits are: one to `EARLIER`, ten to `LATER`."""
    root = tmp_path_factory.mktemp("origin")
    git(root, "init", "-b", "main")
    commit(root, "README.md")
    commit(root, EARLIER)
    for number in range(RECENT_COMMITS):
        commit(root, LATER, str(number))
    return root


@pytest.fixture
def clone(origin: Path, tmp_path: Path) -> Path:
    git(tmp_path, "clone", str(origin), "clone")
    return tmp_path / "clone"


def test_a_clean_clone_has_the_last_commits(clone: Path) -> None:
    assert find_changed_packages(clone) == frozenset({"am"})


def test_own_commits_count_since_they_left_main(clone: Path) -> None:
    commit(clone, "bench/startup.py")
    git(clone, "mv", EARLIER, "bench/page.py")
    write(clone, "src/tony/portal/index.py")
    assert find_changed_packages(clone) == frozenset({"bench/startup.py", "bench/page.py", "web", "portal"})


def test_what_is_for_one_scheduler_is_a_package_of_its_own(clone: Path) -> None:
    for path in ("schedulers/kubernetes/pods.py", "mini/kubernetes/node.py", "schedulers/job_store/x.py", "mini/x.py"):
        commit(clone, f"src/tony/{path}")
    assert find_changed_packages(clone) == frozenset({"schedulers/kubernetes", "schedulers", "mini/kubernetes", "mini"})


def test_a_base_of_ones_own_wins(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_BASE", f"HEAD~{RECENT_COMMITS + 1}")
    assert find_changed_packages(clone) == frozenset({"am", "web"})


def test_everything_counts_without_the_base(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a shallow clone, in a repository that has no origin, without a repository, without git."""
    git(tmp_path, "clone", "--depth=1", origin.as_uri(), "shallow")
    assert find_changed_packages(tmp_path / "shallow") is None
    assert find_changed_packages(origin) is None
    assert find_changed_packages(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_changed_packages(origin) is None


def test_everything_counts_after_a_change_to_a_shared_file(clone: Path) -> None:
    for path in (
        "src/tony/retry.py",
        "pyproject.toml",
        "requirements/dev.txt",
        "tests/conftest.py",
        "tests/support/hadoop/faults.py",
        "tests/e2e/lab.py",
    ):
        write(clone, path)
        assert find_changed_packages(clone) is None, path
        (clone / path).unlink()


def test_a_test_is_due_when_its_packages_changed() -> None:
    test = "tests/yarn/test_jobs.py"
    assert is_due(test, ["hadoop"], None)
    assert is_due(test, ["hadoop"], {"hadoop"})
    assert is_due(test, ["hadoop"], {test}), "the test itself has changed"
    assert is_due(test, ["hadoop"], {"tests/yarn"}), "a helper next to it has changed"
    assert is_due("tests/jobs/remote/test_log_fetcher.py", ["hadoop"], {"tests/jobs"}), "a helper above it has changed"
    assert not is_due(test, ["hadoop"], {"am", "tests/yarn/test_logs.py", "tests/core"})
    assert not is_due(test, ["hadoop"], set())
