"""The wheel holds all that the package needs, and works where there is no checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tony"
#: What a build reads, apart from the package.
BUILD_FILES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "NOTICE")
TIMEOUT = 240.0  # seconds for a build, or for an installation over a slow network

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as `make dist` builds it, from a copy: builds leave files in their source folder."""
    copy = tmp_path_factory.mktemp("source")
    for name in BUILD_FILES:
        shutil.copy(ROOT / name, copy)
    shutil.copytree(PACKAGE, copy / "src" / "tony", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(copy / "dist"), str(copy)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (found,) = (copy / "dist").glob("*.whl")
    assert len(list((copy / "dist").glob("*.tar.gz"))) == 1
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of a virtual environment that has the wheel, and its dependencies from pip's own index."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], timeout=TIMEOUT, check=True)
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[web]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    return python.parent


def _environment(bin_folder: Path, home: Path) -> dict[str, str]:
    """Variables of a user with an empty home, who has activated the environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TONY_", "PYTHON"))}
    return {
        **kept,
        "HOME": str(home),
        "TONY_HOME": str(home / "tony"),
        "TONY_SET_SCHEDULER__LOCAL__LEDGER": str(home / "ledger"),
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
    }


def _run(command: list[str], env: Mapping[str, str], folder: Path) -> str:
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_data_files_and_licences_are_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    files = {f"tony/{path.relative_to(PACKAGE)}" for path in PACKAGE.rglob("*") if path.is_file()}
    assert {name for name in files if "__pycache__" not in name} <= names
    assert {"tony/py.typed", "tony/mini/pom.xml", "tony/schedulers/shipping/launch/start.sh"} <= names
    assert {Path(name).name for name in names if "/licenses/" in name} == {"LICENSE", "NOTICE"}
    tops = {name.partition("/")[0] for name in names}
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert tops == {"tony", f"tony_jobs-{version}.dist-info"}


def test_a_job_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    """Outside the checkout: three workers and a role that waits for them, as the example says."""
    env = _environment(installed, tmp_path)
    where = _run([str(installed / "python"), "-c", "import tony; print(tony.__file__)"], env, tmp_path).strip()
    assert Path(where).is_relative_to(installed.parent)
    shutil.copytree(ROOT / "examples" / "plain", tmp_path / "plain")
    _run([str(installed / "tony"), "submit", "job.toml"], env, tmp_path / "plain")
    report = json.loads(_run([str(installed / "tony"), "status", "last", "--json"], env, tmp_path))
    assert report["state"] == "succeeded"
    assert {task["state"] for task in report["tasks"]} == {"succeeded"}


def test_the_portal_serves_pages_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    """Templates and assets are found where they were installed."""
    env = _environment(installed, tmp_path)
    with subprocess.Popen([installed / "tony", "portal"], env=env, stdout=subprocess.PIPE, text=True) as portal:
        try:
            assert portal.stdout is not None
            address = re.search(r"http://[^\s/]+/", portal.stdout.readline())
            assert address is not None
            with urllib.request.urlopen(address[0], timeout=TIMEOUT) as answer:
                page = answer.read().decode()
            assets = re.findall(r'(?:href|src)="([^"]*/[^"]+\.(?:css|js|svg)[^"]*)"', page)
            assert assets
            for asset in assets:
                with urllib.request.urlopen(address[0] + asset.removeprefix("./"), timeout=TIMEOUT) as answer:
                    assert answer.status == 200
        finally:
            portal.send_signal(signal.SIGINT)
            portal.wait(TIMEOUT)
