"""`tony purge` and `tony pin`: what would go is said first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Tony
from tests.facts import mentions
from tests.jobs.fake_am import JOB, recorded, succeeded
from tony.history.job_record import write_summary
from tony.model.state_directory import Home

OTHER = "local-20260102-000000-0a1b2c"


@pytest.fixture
def jobs(home: Home) -> Home:
    """One that has ended, one that has not."""
    folder, record = recorded(home)
    write_summary(folder, succeeded(folder, record))
    recorded(home, OTHER)
    return home


def test_without_apply_purge_lists_what_it_would_remove(tony: Tony, jobs: Home) -> None:
    answer = tony("purge", "--older-than", "1d")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].split() == ["JOB", "USER", "ENDED", "SIZE", "WHY"]
    assert lines[1].split()[:2] == [JOB, "tester"]
    assert lines[-2].startswith(f"1 job of {jobs.path} would be deleted, ")
    assert "1 job kept (1 not ended)" in lines[-2]
    assert lines[-1] == "Nothing was changed: add --apply."
    assert jobs.job(JOB).summary.exists()


def test_it_is_done(tony: Tony, jobs: Home, tmp_path: Path) -> None:
    answer = tony("purge", "--keep", "0", "--to", str(tmp_path / "old"), "--apply", "--json")
    (row,) = answer.json["jobs"]
    assert (row["job"], row["gone"], answer.json["stay"], answer.json["applied"]) == (JOB, True, 1, True)
    assert not jobs.job(JOB).path.exists()
    again = tony("purge", "--keep", "0", "--history", str(tmp_path / "old"), "--apply")
    assert again.out.splitlines()[-1].startswith(f"1 job of {tmp_path / 'old'} deleted")
    assert tony("purge", "--keep", "0", "--history", str(tmp_path / "old")).out.startswith("0 jobs of ")


def test_a_pin(tony: Tony, jobs: Home) -> None:
    """It keeps a record, and is shown in lists."""
    assert tony("pin", JOB).out == f"Pinned {JOB}\n"
    assert tony("pin", JOB).out == f"{JOB} is already pinned\n"
    assert tony("list", "--json").json[-1]["pinned"]
    assert "1 pinned" in tony("purge", "--keep", "0", "--apply").out
    assert tony("pin", JOB, "--undo", "--json").json == {"job": JOB, "pinned": False, "changed": True}
    assert tony("pin", JOB, "--undo").out == f"{JOB} is not pinned\n"
    assert not tony("list", "--json").json[-1]["pinned"]


def test_without_a_rule(tony: Tony, jobs: Home) -> None:
    answer = tony("purge", "--apply")
    assert answer.code == 2
    assert "--older-than 90d" in answer.err


def test_nothing_to_remove(tony: Tony, jobs: Home) -> None:
    """The answer explains what may be the reason."""
    assert mentions(tony("purge", "--keep", "1000").out, "ten minutes")


@pytest.mark.parametrize("words", [("--older-than", "soon"), ("--keep-size", "much"), ("--keep", "-1")])
def test_values_that_make_no_sense(tony: Tony, jobs: Home, words: tuple[str, str]) -> None:
    assert tony("purge", *words).code == 2
