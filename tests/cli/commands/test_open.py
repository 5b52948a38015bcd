"""`tony open`: the address of a job's page, and a browser where there is a display."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote
from urllib.request import urlopen

import pytest

from tests.cli.conftest import Tony
from tests.facts import mentions
from tests.jobs.fake_am import JOB, recorded, succeeded
from tony.history.job_record import write_summary
from tony.jobs.portal_client.known_portals import find_running, publish_address
from tony.model.state_directory import Home
from tony.schedulers.client_interface import Submitter
from tony.schedulers.local.submitter import LocalSubmitter

PORTAL = "http://127.0.0.1:8600/"


@pytest.fixture(autouse=True)
def job(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job; no display and no SSH session on this machine."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    folder, record = recorded(home)
    write_summary(folder, succeeded(folder, record))


def test_without_a_portal_one_is_started(home: Home) -> None:
    """It serves until Ctrl-C; meanwhile another command finds it."""
    command = [sys.executable, "-m", "tony", "open", JOB]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stdout
        address = serving.stdout.readline().strip()
        assert address == f"{find_running(home)}job/{JOB}"
        with urlopen(address) as page:
            assert JOB in page.read().decode()
        serving.send_signal(signal.SIGINT)
        assert (serving.wait(), find_running(home)) == (0, None)


def test_the_page_of_a_portal(tony: Tony, home: Home) -> None:
    """Its address, and how it is reached from another machine."""
    with publish_address(home, PORTAL):
        answer = tony("open", JOB)
        said = tony("open", JOB, "--json").json
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert unquote(lines[0]) == f"{PORTAL}job/{JOB}"
    assert lines[1].startswith("from another machine: ssh -N -L 8600:127.0.0.1:8600 ")
    assert said == {"job": JOB, "address": f"{PORTAL}job/{JOB}", "portal": True}


def test_a_browser(tony: Tony, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is a display, no SSH session, and not only the address is wanted."""
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {seen}\n')
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setenv("DISPLAY", ":7")
    with publish_address(home, PORTAL):
        assert tony("open", JOB, "--print").out == f"{PORTAL}job/{JOB}\n"
        assert not seen.exists()
        assert tony("open", JOB).out == f"{PORTAL}job/{JOB}\n"
        assert seen.read_text() == f"{PORTAL}job/{JOB}\n"
        monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 5 10.0.0.2 22")
        tony("open", JOB)
    assert seen.read_text().count("\n") == 1


def test_of_a_job_in_a_cluster(tony: Tony, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address that the cluster's own pages have for it; a portal goes first."""

    async def page(self: Submitter, job_id: str) -> str:
        return f"http://rm:8088/proxy/{job_id}/"

    monkeypatch.setattr(LocalSubmitter, "page", page)
    assert tony("open", JOB).out == f"http://rm:8088/proxy/{JOB}/\n"


def test_a_port_that_is_none(tony: Tony) -> None:
    answer = tony("portal", "--port", "99999")
    assert answer.code == 2
    assert mentions(answer.err, "99999", "0", "65535")


def test_an_address_of_another_machine(tony: Tony) -> None:
    answer = tony("portal", "--address", "203.0.113.77", "--without-tls")
    assert answer.code == 3
    assert "Is --address one of this machine?" in answer.err
