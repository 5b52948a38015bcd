"""What was asked while no application master answered is kept, once, and read again as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tony.history.job_record import KillRequest, load_kill_request, save_kill_request
from tony.model.layout import JobFolder


def test_kept_and_read(tmp_path: Path) -> None:
    """For its owner alone; nothing is kept unasked."""
    folder = JobFolder(tmp_path)
    assert load_kill_request(folder) is None
    save_kill_request(folder, KillRequest(actor="ann"))
    assert load_kill_request(folder) == KillRequest(actor="ann", now=False)
    assert folder.kill_request.stat().st_mode & 0o777 == 0o600


def test_the_first_one_counts_and_the_one_without_patience(tmp_path: Path) -> None:
    """Who asked first stays known; a later one takes the grace away, and none gives it back."""
    folder = JobFolder(tmp_path)
    save_kill_request(folder, KillRequest(actor="ann"))
    save_kill_request(folder, KillRequest(actor="bob"))
    assert load_kill_request(folder) == KillRequest(actor="ann")
    save_kill_request(folder, KillRequest(actor="bob", now=True))
    assert load_kill_request(folder) == KillRequest(actor="bob", now=True)
    save_kill_request(folder, KillRequest(actor="ann"))
    assert load_kill_request(folder) == KillRequest(actor="bob", now=True)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", '{"actor": 1}', '{"actor": "ann", "now": "yes"}'])
def test_an_invalid_kill_request_is_ignored(tmp_path: Path, text: str) -> None:
    folder = JobFolder(tmp_path)
    folder.kill_request.write_text(text)
    assert load_kill_request(folder) is None


def test_a_name_is_made_fit_to_be_shown(tmp_path: Path) -> None:
    """On one line, of a sane length."""
    folder = JobFolder(tmp_path)
    folder.kill_request.write_text(json.dumps({"actor": "a\nb\x1b[31m" + "c" * 1000}))
    request = load_kill_request(folder)
    assert request is not None
    assert request.actor == "ab[31m" + "c" * 194
