"""A site's rules hold for everybody, at submit and again in the application master."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e


def test_a_limit_is_checked_at_submit(lab: Lab) -> None:
    """More instances than the site allows: refused with both places, nothing started."""
    site = lab.root / "user" / ".config" / "tony" / "tony.toml"
    site.parent.mkdir(parents=True)
    site.write_text('final = ["max_restarts"]\nmax_restarts = 0\n[limits]\ntotal_instances = 2\n')
    text = 'command = "true"\nmax_restarts = 3\n[roles.worker]\ninstances = 3\n'
    done = lab.submit(lab.job_file(text))
    assert done.returncode == 2
    assert "max_restarts" in done.stderr
    assert "total_instances" in done.stderr
    assert str(site) in done.stderr or "tony.toml" in done.stderr
    assert lab.jobs() == []


def test_the_master_checks_it_again(lab: Lab) -> None:
    """A client that does not know the site's file does not get around it."""
    site = lab.root / "user" / ".config" / "tony" / "tony.toml"
    site.parent.mkdir(parents=True)
    site.write_text("[limits]\ntotal_instances = 2\n")
    # A client without the site's rules: its own check is left out, the application master's is not.
    code = """
    import asyncio, os, sys
    from tony.client import submission
    from tony.jobs import state_dir
    from tony.config.load import load
    resolved = load(sys.argv[1], site_files=())
    print(asyncio.run(submission.submit(resolved, state_dir.find_state_dir(os.environ), print)))
    """
    job_file = lab.job_file('command = "true"\n[roles.worker]\ninstances = 3\n')
    command = [sys.executable, str(lab.file("client.py", code)), str(job_file)]
    done = subprocess.run(command, env=lab.env, capture_output=True, text=True, check=False, cwd=lab.root)
    listed = json.loads(lab.tony("list", "--json").stdout)
    assert [j["state"] for j in listed] == ["failed"], done.stderr
    status = lab.status(listed[0]["job"])
    assert (status["exit_code"], status["session"]) == (2, 0)
    assert "total_instances" in status["failure"]["reason"]
