"""Where a portal says that it is, and when that is believed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tony.history.json_files import write_json
from tony.jobs.portal_client.known_portals import find_running, publish_address
from tony.linux import process
from tony.model.codec import to_plain
from tony.model.state_directory import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home that is not there yet."""
    return Home(tmp_path / "home")


def test_as_long_as_it_runs(home: Home) -> None:
    """It is found while it lives, and nothing is left of it."""
    assert find_running(home) is None
    with publish_address(home, "http://127.0.0.1:8600/"):
        assert find_running(home) == "http://127.0.0.1:8600/"
        assert home.portal_here.stat().st_mode & 0o077 == 0
    assert find_running(home) is None
    assert not home.portal_here.exists()


def test_of_several_the_last_is_found(home: Home) -> None:
    """One that ends takes its own note away, and no other's."""
    with publish_address(home, "http://127.0.0.1:1/"):
        with publish_address(home, "http://127.0.0.1:2/"):
            assert find_running(home) == "http://127.0.0.1:2/"
            other = json.loads(home.portal_here.read_text())
        write_json(home.portal_here, {**other, "address": "https://jobs.example.org"})
    assert find_running(home) == "https://jobs.example.org/"


def test_one_that_was_killed_is_not_found(home: Home) -> None:
    """Nor is a process that got its number since, nor one of another machine, nor nonsense."""
    home.path.mkdir()
    with subprocess.Popen(["true"]) as child:
        pid = child.pid
    note = {"address": "http://127.0.0.1:1/", "pid": pid, "started": 5, "host": os.uname().nodename}
    write_json(home.portal_here, to_plain(note))
    assert find_running(home) is None
    write_json(home.portal_here, to_plain({**note, "pid": os.getpid()}))
    assert find_running(home) is None
    started = process.start_time(os.getpid())
    mine = {**note, "pid": os.getpid(), "started": started}
    write_json(home.portal_here, to_plain(mine))
    assert find_running(home) == "http://127.0.0.1:1/"
    write_json(home.portal_here, to_plain({**mine, "host": "elsewhere"}))
    assert find_running(home) is None
    for nonsense in ("", "[]", '{"address": 7}', "\xff"):
        home.portal_here.write_text(nonsense)
        assert find_running(home) is None


def test_a_home_that_cannot_be_written(home: Home) -> None:
    home.path.write_text("no folder")
    with publish_address(home, "http://127.0.0.1:1/"):
        assert find_running(home) is None
