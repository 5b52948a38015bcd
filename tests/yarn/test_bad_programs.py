"""Programs and names that behave as none should, on a real cluster: many of them in few jobs."""

from __future__ import annotations

import json

import pytest

from tests.change_detection import CLUSTER
from tests.yarn.lab import YarnLab

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.on_change(*CLUSTER, "client", "executor", "rpc", "storage"),
]

#: A name of the greatest length, with all characters that could be misinterpreted.
_ODD_NAME = "../../pwned $(touch pwned) `id` %s {role} <b>&amp;</b> 'x', \"y\" ☃ 漢字 \U0001f680 Grüße "
NAME = _ODD_NAME.ljust(200, "n")
RAW = rb"ok \xff\xfe \xc3( \xed\xa0\x80 end"
#: Bytes of a line without an end.
LONG = 20_000_000

ODD = """
[roles.long]
command = "head -c 20000000 /dev/zero | tr '\\\\0' x"

[roles.bytes]
command = '''printf 'ok \\377\\376 \\303( \\355\\240\\200 end\\n' '''

[roles.daemon]
command = "(setsid sleep 3600 > /dev/null 2>&1 &); sleep 3601 & sleep 0.2"

[roles.mute]
command = "exec >&- 2>&-; sleep 0.2; touch $OUT/$JOB_ID"
"""


def test_programs_that_end_well_all_the_same(lab: YarnLab) -> None:
    """A line of 20 MB, bytes that are no text, a daemon, a closed output; two jobs of one name, the oddest there is."""
    name = json.dumps(NAME, ensure_ascii=False)
    file = lab.job(f"name = {name}\n{ODD}")
    jobs = [lab.detach(file) for _ in range(2)]
    assert [lab.wait(job)["exit_code"] for job in jobs] == [0, 0]
    assert sorted(path.name for path in lab.out.iterdir()) == sorted(jobs)
    for job in jobs:
        status = lab.status(job)
        assert (status["name"], status["state"], lab.application(job)["name"]) == (NAME, "succeeded", NAME)
    notes = {task["task"]: task["note"] for task in lab.status(jobs[0])["tasks"]}
    assert "left 2 processes running" in notes["daemon:0"]
    assert notes["mute:0"] == "exit code 0"
    away = lab.elsewhere("away")
    lines = [json.loads(line) for line in away.tony("logs", jobs[0], "--json").stdout.splitlines()]
    said = {task: "".join(line["line"] for line in lines if line["task"] == task) for task in ("long:0", "bytes:0")}
    assert said["long:0"] == "x" * LONG
    assert said["bytes:0"] == RAW.decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")
    assert NAME in lab.tony("list", "--scheduler", "yarn").stdout
    assert not list(lab.root.rglob("pwned*"))
