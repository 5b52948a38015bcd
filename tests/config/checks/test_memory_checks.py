"""Tests of `memory_on_oom` in job files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.jobs import list_errors, resolve, write
from tests.facts import mentions
from tony.model.job_spec import GIB, MemoryGrowth

_ROLE = '[roles.worker]\ncommand = "x"\nmemory = "2g"\n'


def test_a_role_takes_from_the_job_what_it_does_not_set(tmp_path: Path) -> None:
    text = 'max_restarts = 1\nmemory_on_oom = { factor = 2, up_to = "8g" }\n'
    spec = resolve(tmp_path, f'{text}{_ROLE}memory_on_oom.up_to = "4g"\n[roles.ps]\ncommand = "x"').spec
    assert spec.memory_growth_of("worker") == MemoryGrowth(factor=2.0, up_to=4 * GIB)
    assert spec.memory_growth_of("ps") == MemoryGrowth(factor=2.0, up_to=8 * GIB)


def test_a_site_may_set_it(tmp_path: Path) -> None:
    site = write(tmp_path, 'memory_on_oom.up_to = "8g"', "site.toml")
    resolved = resolve(tmp_path, 'command = "x"', sites=[site], sets=["memory_on_oom.factor=1.25"])
    assert resolved.spec.memory_on_oom == MemoryGrowth(factor=1.25, up_to=8 * GIB)
    assert resolved.notes == ()  # the job itself sets no limit


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('command = "x"\nmemory_on_oom.factor = 2', ("memory_on_oom", "`up_to` is missing")),
        (f"{_ROLE}memory_on_oom.factor = 2", ("roles.worker.memory_on_oom", "`up_to` is missing")),
        (f'{_ROLE}memory_on_oom.up_to = "2g"', ("roles.worker.memory_on_oom.up_to", "2g", "from the start")),
        ('command = "x"\nmemory_on_oom = { factor = 1, up_to = "2g" }', ("memory_on_oom.factor = 1", "too small")),
        ('command = "x"\nmemory_on_oom = { factor = "2", up_to = "2g" }', ("memory_on_oom.factor", "a number")),
        ('command = "x"\nmemory_on_oom = { factor = nan, up_to = "2g" }', ("memory_on_oom.factor", "a number")),
        ('command = "x"\nmemory_on_oom = { up_to = 2 }', ("memory_on_oom.up_to = 2", "unit")),
        ('command = "x"\nmemory_on_oom = "8g"', ("memory_on_oom", "expected a table")),
    ],
)
def test_errors_name_the_key(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    (error,) = list_errors(tmp_path, text)
    assert mentions(error, *words)


def test_a_job_that_never_restarts_is_told_that_it_has_no_effect(tmp_path: Path) -> None:
    text = 'command = "x"\nmemory_on_oom.up_to = "8g"'
    (note,) = resolve(tmp_path, text).notes
    assert mentions(str(note), "memory_on_oom.up_to", "job.toml:2", "max_restarts")
