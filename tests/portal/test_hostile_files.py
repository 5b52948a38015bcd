"""Readers of other users' files, with little memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.portal.hostile_files import CASES

#: What is said of each; of the others all is read.
REFUSED = {
    "lists": "more than 250,000 objects and arrays",
    "nested": "nested too deeply",
    "long": "is longer than 8 MiB",
    "tasks": "has 90,000 tasks; the limit for jobs of other users is 20,000",
    "gang": "has 200,000 tasks; the limit for jobs of other users is 20,000",
    "long-log": "the event log in",
    "computed": "series.name is not a plain column",
    "defaults": "too many rows or too much text",
    "rows": "too many rows or too much text",
    "avro-metrics": "more than 1,000,000 values",
    "avro-events": "more than 1,000,000 values",
    "tfile-blocks": "claims to have 900000 blocks",
    "tfile-logs": "has more than 250,000 log files",
    "tfile-long": "bytes too early",
    "ifile-objects": "has more than 500000 objects",
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what each case has printed."""
    folder = tmp_path_factory.mktemp("hostile")
    command = [sys.executable, "-m", "tests.portal.hostile_files", str(folder)]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True)
    return folder


@pytest.mark.parametrize("case", CASES)
def test_no_file_takes_more_memory_than_its_readers_have(printed: Path, case: str) -> None:
    """They answer, or say what is wrong; they do not run out of memory or time."""
    text = (printed / f"{case}.out").read_text()
    assert text.endswith("\nexit 0\n"), text[-3000:]
    assert "Traceback" not in text
    assert REFUSED.get(case, "") in text
