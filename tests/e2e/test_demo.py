"""How `make demo` ends: with the way to the job's page. The training itself: `test_examples`."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.e2e.lab import load_script, until
from tests.web.sample_jobs import keep
from tony.mini.free_ports import choose_ports
from tony.model.state_directory import Home

ROOT = Path(__file__).parents[2]
JOB = "local-20260101-000000-0a1b2c"


def test_its_last_line_is_the_address_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says to type starts a portal that has the page there; one that runs already is named."""
    keep(Home(tmp_path / "home"), JOB)
    monkeypatch.setenv("TONY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    demo = load_script(ROOT / "scripts" / "demo.py")
    assert 8600 in demo.PORTS
    monkeypatch.setattr(demo, "PORTS", tuple(choose_ports(["portal"]).values()))  # others may do the same just now
    way_to_its_page = demo.way_to_its_page

    *before, address = (line.strip() for line in way_to_its_page(JOB).splitlines())
    (start,) = (line for line in before if line.startswith(".venv/bin/tony portal "))
    assert address.endswith(f"/job/{JOB}")

    words = shlex.split(start, comments=True)
    command = [str(Path(sys.executable).with_name("tony")), *words[1:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as portal:
        try:
            assert portal.stdout is not None
            shown = portal.stdout.readline()
            assert f"Portal running at {address.removesuffix(f'job/{JOB}')} " in shown
            page = until(lambda: page if (page := httpx.get(address)).status_code == 200 else None, "the page is there")
            assert "digits" in page.text
            again = way_to_its_page(JOB).splitlines()
            assert (again[0], again[-1].strip()) == ("Your portal shows it:", address)
        finally:
            portal.send_signal(signal.SIGINT)
            portal.wait(60)
    assert "tony portal --port" in way_to_its_page(JOB), "none is named that has ended"
