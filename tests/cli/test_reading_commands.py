"""The commands that look at jobs, and `kill`. They answer 0 when they could, whatever became of the job."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

import pytest

from tests.cli.conftest import Tony
from tests.cli.in_process_am import living
from tests.facts import mentions
from tests.jobs.fake_am import (
    JOB,
    LONG_AGO,
    failed,
    logged,
    recorded,
    standing,
    succeeded,
    write_log,
)
from tony import clock
from tony.cli.main import main
from tony.config.settings_doc import settings_rows
from tony.config.table.settings_table import is_common
from tony.core import events as ev
from tony.core.state_digest import MACHINE
from tony.executor.output.log_file import BoundedLogFile
from tony.history.event_log import settings_digest
from tony.history.job_record import write_summary
from tony.jobs.root_cause import ROOT_CAUSE_FIELDS
from tony.jobs.status import remote_job_sync
from tony.model.actor import Actor
from tony.model.codec import from_plain
from tony.model.ids import TaskId
from tony.model.job_report import JobReport, Restarts
from tony.model.job_spec import JobSpec
from tony.model.progress import Progress
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState, TaskState
from tony.model.submission_record import JobRecord

Recorded = tuple[JobFolder, JobRecord]
#: What programs may rely on: the least that `status --json` has.
REPORT_KEYS = {"job", "name", "state", "session", "attempt", "exit_code", "folder", "am", "tasks", "failure"}
TASK_KEYS = {"task", "role", "index", "state", "host", "pid", "executor_pid", "session", "try", "exit_code", "signal"}


@pytest.fixture
def job(home: Home) -> Recorded:
    """A job that failed, with two workers' output."""
    folder, record = recorded(home)
    write_log(folder, "worker-0.s1.t1.out", "zero\n")
    write_log(folder, "worker-0.s1.t1.err", b"\xff\x1b[2Jodd\n")
    write_log(folder, "worker-1.s1.t1.out", "one\ntwo\n")
    write_log(folder, "worker-1.s2.t1.out", "three\n")
    write_summary(folder, failed(folder, record))
    return folder, record


class TestStatus:
    def test_of_an_ended_job(self, tony: Tony, job: Recorded) -> None:
        """Exit code 0, although the job failed."""
        answer = tony("status", JOB)
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.startswith(f"{JOB}  digits  failed  session 1")
        assert "worker:1 on here: exit code 3" in answer.out

    def test_as_json(self, tony: Tony, job: Recorded) -> None:
        """It is the report, and reads back as one."""
        answer = tony("status", "last", "--json")
        assert answer.json.keys() >= REPORT_KEYS
        assert answer.json["tasks"][0].keys() >= TASK_KEYS
        assert answer.json["am"] is None
        fields = dict(answer.json)
        assert fields.pop("progress") is None
        cause = {name: fields.pop(name) for name in ROOT_CAUSE_FIELDS}
        assert (cause["class"], cause["root_task"]) == ("user-code", "worker:1")
        assert from_plain(JobReport, fields) == failed(*job)

    def test_of_a_living_job(self, tony: Tony, home: Home) -> None:
        folder, record = recorded(home)
        with living(folder, standing(folder, record, JobState.RUNNING, TaskState.RUNNING)):
            answer = tony("status", JOB, "--json")
        assert (answer.json["state"], answer.json["am"]["host"]) == ("running", "here")

    def test_a_stalled_task(self, tony: Tony, home: Home) -> None:
        folder, record = recorded(home)
        hung = Progress("worker:0", 1, 1, 0.0, 5.0, 20.0, 15.0, 100.0, stalled_after=30.0)
        report = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
        with living(folder, replace(report, tasks=tuple(replace(task, pid=5) for task in report.tasks))) as beside:
            beside.master.progress = (hung, replace(hung, task="worker:1", at=89.0))
            answer, lines = tony("status", JOB, "--json"), tony("status", JOB).out.splitlines()
        found = answer.json["progress"]
        assert (found["task"], found["share"], found["stalled"], found["tasks"]) == ("worker:0", 0.2, 74.0, 2)
        assert "20 % done, worker:0 stalled for 1 m 14 s" in lines

    def test_just_after_submit(self, tony: Tony, home: Home) -> None:
        """All tasks are there, pending; there is no application master yet."""
        recorded(home, submitted=clock.wall())
        answer = tony("status", JOB, "--json")
        assert (answer.code, answer.json["state"], answer.json["am"]) == (0, "submitted", None)
        assert [(t["task"], t["state"]) for t in answer.json["tasks"]] == [
            ("worker:0", "pending"),
            ("worker:1", "pending"),
        ]

    def test_of_an_unknown_job(self, tony: Tony, job: Recorded) -> None:
        answer = tony("status", JOB.replace("0a1b2c", "0a1b2d"))
        assert (answer.code, answer.out) == (2, "")
        assert f"did you mean {JOB}?" in answer.err

    def test_restarts(self, tony: Tony, job: Recorded) -> None:
        """How often, and why, as far as the log says it; `history` says it, too."""
        folder, record = job
        logged(folder, [ev.SessionOpened(session=1, reason="go"), ev.SessionOpened(session=2, reason="it \x1bfailed")])
        write_summary(folder, replace(failed(folder, record), session=3))
        for command in ("status", "history"):
            out = tony(command, JOB).out
            assert (
                "\n\nRestarted 2 times:\n  session 2 after it \\x1bfailed\n  session 3 after an unknown reason\n" in out
            )

    def test_restarts_of_one_task_alone(self, tony: Tony, job: Recorded) -> None:
        """They count as well, and stay when a later session has begun."""
        folder, record = job
        failure, reason = "worker:1: killed by SIGKILL", "restart 1 of 2"
        alone = ev.FailureClassified(
            task=TaskId("worker", 1), failure=failure, decision=ev.FailureResponse.RETRY, reason=reason
        )
        logged(
            folder, [ev.SessionOpened(session=1, reason="go"), alone, ev.SessionOpened(session=2, reason="it failed")]
        )
        last = replace(failed(folder, record), session=2, restarts=Restarts(charged=2, most=2, free=0))
        write_summary(folder, last)
        said = "  session 1, worker:1 alone: worker:1: killed by SIGKILL (restart 1 of 2)\n"
        for command in ("status", "history"):
            out = tony(command, JOB).out
            assert (
                f"\n\nRestarted 2 times:\n{said}  session 2 after it failed\nRestarts: 2 of 2 used (max_restarts)\n"
                in out
            )
        write_summary(folder, replace(last, session=1))
        assert f"\n\nRestarted once:\n{said}Restarts: 2 of 2 used" in tony("status", JOB).out

    def test_restarts_that_the_log_here_lacks(self, tony: Tony, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        """The last one is in the report; the others come with the log, if that can be had by now."""
        folder, record = recorded(home)
        asked = []

        async def bring(home: Home, job_id: str, last: int, *, ended: bool) -> dict[int, str]:
            asked.append((last, ended))
            logged(folder, [ev.SessionOpened(session=2, reason="it failed")])
            return {}

        monkeypatch.setattr(remote_job_sync, "load_session_reasons", bring)
        write_summary(folder, replace(failed(folder, record), session=2, session_reason="known"))
        assert "Restarted once:\n  session 2 after known\n" in tony("status", JOB).out
        write_summary(folder, replace(failed(folder, record), session=3, session_reason="again"))
        out = tony("status", JOB).out
        assert "\n\nRestarted 2 times:\n  session 2 after it failed\n  session 3 after again\n" in out
        assert asked == [(3, True)]

    def test_a_home_that_is_no_folder(self, tony: Tony, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        """Exit code 2, whatever is requested."""
        (home.path / "file").touch()
        monkeypatch.setenv("TONY_HOME", str(home.path / "file"))
        for arguments in (["status", "last"], ["list"], ["run", "-d", "--", "true"]):
            answer = tony(*arguments)
            assert (answer.code, answer.out) == (2, "")
            assert "which is not a folder" in answer.err

    def test_an_error_as_json(self, tony: Tony, home: Home) -> None:
        answer = tony("status", "last", "--json")
        assert answer.code == 2
        assert answer.err == f"tony: {answer.json['error']['message']}\n"
        assert answer.json["error"]["exit_code"] == 2
        assert tony("status", "--json").json["error"]["exit_code"] == 2


class TestList:
    def test_jobs(self, tony: Tony, job: Recorded, home: Home) -> None:
        folder, record = recorded(home, "local-20260102-000000-0a1b2c", submitted=LONG_AGO + 5)
        write_summary(folder, succeeded(folder, record))
        lines = tony("list").out.splitlines()
        assert [line.split()[:3] for line in lines] == [
            ["JOB", "NAME", "STATE"],
            ["local-20260102-000000-0a1b2c", "digits", "succeeded"],
            [JOB, "digits", "failed"],
        ]
        assert lines[0].endswith("REASON")
        assert lines[2].endswith("worker:1 on here: exit code 3")

    def test_filters(self, tony: Tony, job: Recorded) -> None:
        """By state, name, user and time; several states are taken together."""
        for wanted in (
            ["--state", "failed"],
            ["--state", "failed", "--state", "killed"],
            ["--name", "dig*"],
            ["--user", "tester"],
            ["--since", "2020-01-01"],
            ["--until", "2026-01-01T12:00"],
            ["--until", "1h"],
            ["-n", "1"],
        ):
            assert [head["job"] for head in tony("list", "--json", *wanted).json] == [JOB], wanted
        for unwanted in (["--state", "running"], ["--name", "d"], ["--user", "x"], ["--since", "1d"]):
            answer = tony("list", *unwanted)
            assert (answer.code, answer.out.startswith("no jobs in "), answer.out.endswith(" match\n")) == (
                0,
                True,
                True,
            ), unwanted

    def test_no_time(self, tony: Tony) -> None:
        answer = tony("list", "--since", "yesterday")
        assert answer.code == 2
        assert "write 2026-01-31, 2026-01-31T18:00, 18:00 (today) or how long ago: 2h" in answer.err

    def test_as_json(self, tony: Tony, job: Recorded) -> None:
        (head,) = tony("list", "--json").json
        assert {name: head.pop(name) for name in ("failure_class", "cause", "sessions", "tags")} == {
            "failure_class": "user",
            "cause": "program",
            "sessions": 1,
            "tags": [],
        }
        assert {name: value for name, value in head.items() if value not in (None, "", 0, False, [])} == {
            "job": JOB,
            "name": "digits",
            "state": "failed",
            "user": "tester",
            "scheduler": "local",
            "framework": "none",
            "tasks": 2,
            "submitted": LONG_AGO,
            "ended": LONG_AGO + 8,
            "exit_code": 1,
            "reason": "worker:1 on here: exit code 3",
        }

    def test_damaged_records(self, tony: Tony, job: Recorded, home: Home) -> None:
        """They are named on standard error; the rest is listed."""
        folder, _ = recorded(home, "local-x")
        folder.job.write_text("{")
        answer = tony("list", "--json")
        assert (answer.code, len(answer.json)) == (0, 1)
        assert answer.err.startswith("tony: local-x: ")

    def test_an_empty_home(self, tony: Tony, home: Home) -> None:
        assert (tony("list").code, tony("list", "--json").out) == (0, "[]\n")
        assert tony("list").out == f"no jobs in {home.jobs}\n"

    @pytest.mark.parametrize("number", ["two", "0", "-1", "1.5", "9" * 30])
    def test_no_number(self, tony: Tony, number: str) -> None:
        answer = tony("list", "-n", number)
        assert answer.code == 2
        assert mentions(answer.err, "least 1")

    @pytest.mark.parametrize("name", ["digits", "a-name-that-is-much-too-long-for-such-a-terminal"])
    def test_a_narrow_terminal(
        self, tony: Tony, job: Recorded, home: Home, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """Ids become their ends, which every command takes; state and name stay."""
        folder, record = recorded(home, "local-20260102-000000-abcdef", submitted=LONG_AGO + 5)
        write_summary(folder, replace(succeeded(folder, record), name=name))
        folder.job.write_text(folder.job.read_text().replace('"digits"', f'"{name}"'))
        monkeypatch.setattr("tony.cli.commands.list.find_columns", lambda: 40)
        lines = tony("list").out.splitlines()
        shown = name if len(name) <= 21 else f"{name[:20]}…"
        assert [line.split()[:3] for line in lines] == [
            ["JOB", "NAME", "STATE"],
            ["abcdef", shown, "succeeded"],
            ["0a1b2c", "digits", "failed"],
        ]
        assert max(map(len, lines)) <= 40
        assert tony("status", "0a1b2c").code == 0

    def test_a_tiny_terminal(self, tony: Tony, job: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tony.cli.commands.list.find_columns", lambda: 16)
        assert tony("list").out.splitlines() == ["JOB     STATE", "0a1b2c  failed"]


class TestLogs:
    def test_all_tasks(self, job: Recorded, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        """Each line with its task, byte for byte where no terminal reads it."""
        assert main(["logs", JOB, "--all-sessions"]) == 0
        assert capsysbinary.readouterr().out.splitlines() == [
            b"worker:0 | zero",
            b"worker:0 | \xff\x1b[2Jodd",
            b"worker:1 | one",
            b"worker:1 | two",
            b"worker:1 | three",
        ]

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (["worker:1"], "three\n"),
            (["worker:1", "--all-sessions"], "one\ntwo\nthree\n"),
            (["worker:1", "--all-sessions", "--tail", "2"], "two\nthree\n"),
            (["worker:1", "-n", "0"], ""),
            (["worker:1", "--session", "2"], "three\n"),
            (["worker:1", "--session", "1", "--grep", "^t.o"], "two\n"),
            (["worker:1", "--follow"], "three\n"),
            (["worker:1", "--follow", "--all-sessions"], "one\ntwo\nthree\n"),
            (["worker:1", "--stderr"], ""),
            (["worker:0", "--stdout"], "zero\n"),
            (["worker", "--stdout", "--session", "1"], "worker:0 | zero\nworker:1 | one\nworker:1 | two\n"),
            (["worker:0", "worker:1", "--stdout", "-n", "1"], "worker:0 | zero\nworker:1 | three\n"),
        ],
    )
    def test_some(self, tony: Tony, job: Recorded, arguments: list[str], expected: str) -> None:
        answer = tony("logs", JOB, *arguments)
        assert (answer.code, answer.out) == (0, expected)

    def test_as_json(self, tony: Tony, job: Recorded) -> None:
        lines = [json.loads(line) for line in tony("logs", JOB, "worker:0", "--json").out.splitlines()]
        assert lines == [
            {"task": "worker:0", "session": 1, "try": 1, "stream": "out", "time": None, "line": "zero"},
            {"task": "worker:0", "session": 1, "try": 1, "stream": "err", "time": None, "line": "\ufffd\x1b[2Jodd"},
        ]

    def test_in_the_order_of_their_times(self, tony: Tony, job: Recorded) -> None:
        """Over tasks and streams, with the time in front; from a time on; and those that match, whatever colours."""
        now = datetime(2026, 1, 31, 18).timestamp()
        for name, pieces in {
            "worker-0.s3.t1.out": [("step 1\n", 0.25), ("step 2\n", 2.0)],
            "worker-0.s3.t1.err": [("\x1b[31mstep\x1b[0m warns\n", 1.0)],
            "worker-1.s3.t1.out": [("step one\n", 0.5), ("done\n", 3.0)],
        }.items():
            file = BoundedLogFile(job[0].logs / name, 1 << 20)
            for text, at in pieces:
                file.write(text.encode(), now + at)
            file.close()
        assert tony("logs", JOB, "--timestamps").out.splitlines() == [
            "2026-01-31 18:00:00.25 worker:0 | step 1",
            "2026-01-31 18:00:00.50 worker:1 | step one",
            "2026-01-31 18:00:01.00 worker:0 | \x1b[31mstep\x1b[0m warns",
            "2026-01-31 18:00:02.00 worker:0 | step 2",
            "2026-01-31 18:00:03.00 worker:1 | done",
        ]
        late = tony("logs", JOB, "worker:0", "--since", "2026-01-31T18:00:01", "--grep", r"step (\d|w)").out
        assert late == "\x1b[31mstep\x1b[0m warns\nstep 2\n"
        assert tony("logs", JOB, "worker:0", "--since", "1h").out == ""
        followed = tony("logs", JOB, "-f", "--timestamps", "--session", "3", "--stdout").out.splitlines()
        assert [line.partition("| ")[2] for line in followed] == ["step 1", "step one", "step 2", "done"]
        times = [json.loads(line)["time"] for line in tony("logs", JOB, "worker:1", "--json").out.splitlines()]
        assert times == [now + 0.5, now + 3.0]

    def test_an_expression_that_matches_nothing_or_is_none(self, tony: Tony, job: Recorded) -> None:
        assert mentions(tony("logs", JOB, "worker:0", "--grep", "no.such").err, "no line matches 'no.such'")
        answer = tony("logs", JOB, "worker:0", "--grep", "(")
        assert (answer.code, mentions(answer.err, "'('", "not a regular expression")) == (2, True)
        assert tony("logs", JOB, "--session", "1", "--all-sessions").code == 2

    def test_nothing_was_printed(self, tony: Tony, home: Home) -> None:
        folder, record = recorded(home)
        answer = tony("logs", JOB)
        assert (answer.code, answer.out) == (0, "")
        assert mentions(answer.err, f"tony status {JOB}")
        write_summary(folder, succeeded(folder, record))
        assert mentions(tony("logs", JOB).err, f"tony status {JOB}")

    def test_a_session_that_never_was(self, tony: Tony, job: Recorded) -> None:
        """Exit code 2, and which there are; a job that has begun may get further ones."""
        answer = tony("logs", JOB, "--session", "9")
        assert (answer.code, answer.out) == (2, "")
        assert mentions(answer.err, f"job {JOB}", "session 9", "session 1")
        write_summary(job[0], replace(failed(*job), session=3))
        assert "it has sessions 1 to 3" in tony("logs", JOB, "--session", "9", "-f").err
        assert tony("logs", JOB, "--session", "3").code == 0

    def test_the_only_task_needs_no_prefix(self, tony: Tony, home: Home) -> None:
        folder, record = recorded(home, spec=JobSpec(command="true"))
        write_log(folder, "main-0.s1.t1.out", "one\n")
        write_summary(folder, succeeded(folder, record))
        assert tony("logs", "last").out == "one\n"

    def test_following_an_ended_job_prints_its_outcome(self, tony: Tony, job: Recorded) -> None:
        """In one line beside the output, as for a running job."""
        write_summary(job[0], succeeded(*job))
        assert tony("logs", JOB, "worker:1", "-f").err.startswith(f"tony: job {JOB} (digits) succeeded after ")

    def test_bytes_pass_unchanged(self, job: Recorded, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        """Carriage returns, too, as long as no terminal reads them."""
        write_log(job[0], "worker-0.s3.t1.out", "\r 25%\r 50%\r\n")
        assert main(["logs", JOB, "worker:0", "--session", "3"]) == 0
        assert main(["logs", JOB, "worker:0", "--session", "3", "-f"]) == 0
        assert capsysbinary.readouterr().out == b"\r 25%\r 50%\r\n" * 2

    def test_output_that_was_rotated(self, tony: Tony, job: Recorded) -> None:
        """It is said that there was more, unless only the last lines are wanted."""
        write_log(job[0], "worker-1.s1.t1.out.1", "zero\n")
        answer = tony("logs", JOB, "--stdout", "--session", "1")
        assert mentions(answer.err, "worker:1", "log_limit = 256m")
        assert tony("logs", JOB, "worker:0", "--stdout").err == ""
        assert tony("logs", JOB, "--stdout", "-n", "1").err == ""

    @pytest.mark.parametrize(
        ("task", "said"),
        [
            ("worker:7", "has no task 'worker:7'; it has worker:0, worker:1"),
            ("chief", "has no task 'chief'"),
            ("wrker", "has no task 'wrker'; did you mean `worker`?"),
            ("a:b", "'a:b' is not a task; write role:index such as worker:0, or a role"),
        ],
    )
    def test_no_such_task(self, tony: Tony, job: Recorded, task: str, said: str) -> None:
        answer = tony("logs", JOB, task)
        assert answer.code == 2
        assert said in answer.err

    def test_following_a_living_job(self, tony: Tony, home: Home) -> None:
        folder, record = recorded(home)
        with living(folder, standing(folder, record, JobState.RUNNING, TaskState.RUNNING)) as beside:
            write_log(folder, "worker-0.s1.t1.out", "a\n")
            beside.master.folder.logs.joinpath("worker-1.s1.t1.out").touch()

            def tell(self: object) -> None:
                beside.wait(lambda: beside.master.watched)
                write_log(folder, "worker-1.s1.t1.out", "b")
                beside.finish(failed(folder, record))

            with beside.story(tell):
                answer = tony("logs", JOB, "--follow")
        ended = f"tony: job {JOB} (digits) failed after 8 s: worker:1 on here: exit code 3\n"
        assert (answer.code, answer.out, answer.err) == (0, "worker:0 | a\nworker:1 | b\n", ended)


def write_killed_job(folder: JobFolder, record: JobRecord) -> None:
    """A log of a job that was killed before it had a container."""
    logged(
        folder,
        [
            ev.AttemptStarted(attempt=1, wall=LONG_AGO, settings=settings_digest(record.spec), pid=4711, host="here"),
            ev.ContainersFound(containers=()),
            ev.ReconcileClosed(),
            ev.SessionOpened(session=1, reason="the job begins"),
            ev.KillRequested(actor=Actor("ann")),
        ],
    )


class TestEvents:
    def test_in_words(self, tony: Tony, home: Home) -> None:
        """When, since the start, what; those that only tony needs on request."""
        write_killed_job(*recorded(home))
        lines, shown = (
            [line.split("  ", 1)[1].strip() for line in tony("events", JOB, *options).out.splitlines()]
            for options in (["--all"], [])
        )
        assert shown == [lines[0], *lines[3:]]
        assert lines == [
            "+1.000  attempt-started    AM attempt 1: pid 4711 on here",
            "+2.000  containers-found   none",
            "+3.000  reconcile-closed",
            "+4.000  session-opened     session 1: the job begins",
            "+5.000  kill-requested     ann requested kill",
        ]

    def test_as_json(self, tony: Tony, home: Home) -> None:
        """As they are in the log, and with the attempt."""
        write_killed_job(*recorded(home))
        last = json.loads(tony("events", JOB, "--json").out.splitlines()[-1])
        assert last == {
            "seq": 5,
            "at": 5.0,
            "wall": LONG_AGO + 5,
            "attempt": 1,
            "event": "kill-requested",
            "data": {"actor": {"name": "ann", "kind": "user"}, "now": False},
        }

    def test_following_an_ended_job(self, tony: Tony, home: Home) -> None:
        folder, record = recorded(home)
        write_killed_job(folder, record)
        write_summary(folder, failed(folder, record))
        assert len(tony("events", JOB, "-f", "--all").out.splitlines()) == 5

    def test_before_the_first(self, tony: Tony, home: Home) -> None:
        recorded(home, submitted=clock.wall())
        assert (tony("events", JOB).code, tony("events", JOB).out) == (0, "")


class TestReplay:
    def test_the_same_again(self, tony: Tony, home: Home) -> None:
        write_killed_job(*recorded(home))
        answer = tony("replay", JOB)
        assert answer.code == 0
        assert mentions(answer.out, "5 events", "OK", "killed", "0")
        assert tony("replay", JOB, "--json").json == {
            "job": JOB,
            "identical": True,
            "events": 5,
            "compared": 0,
            "difference": None,
            "place": None,
            "state": "killed",
        }

    def test_something_else(self, tony: Tony, home: Home) -> None:
        """Exit code 70: the log is a bug report. File and line are said."""
        folder, record = recorded(home)
        write_killed_job(folder, record)
        logged(folder, [ev.Snapshot(digest=f"{MACHINE}-" + "0" * 64)], attempt=2, first_seq=6)
        answer = tony("replay", JOB)
        assert answer.code == 70
        place = f"{folder.events(2)}:2"
        assert answer.out.startswith(
            f"DIFFERENT after 5 events, in state killed: {place}: the replayed state before event 6 "
        )
        assert tony("replay", JOB, "--json").json["identical"] is False

    def test_replay_reads_a_job_directory_anywhere(self, tony: Tony, home: Home) -> None:
        """A bug report is best made of the job's folder."""
        folder, record = recorded(home)
        write_killed_job(folder, record)
        elsewhere = home.path / "report"
        folder.path.rename(elsewhere)
        assert tony("replay", str(elsewhere)).code == 0

    def test_without_a_log(self, tony: Tony, home: Home) -> None:
        recorded(home)
        answer = tony("replay", JOB)
        assert answer.code == 2
        assert "has no event log yet" in answer.err

    def test_a_record_that_was_closed_later(self, tony: Tony, home: Home) -> None:
        """The log of a job whose application master died knows nothing of its end."""
        folder, record = recorded(home)
        logged(
            folder,
            [
                ev.AttemptStarted(attempt=1, wall=LONG_AGO, settings=settings_digest(record.spec), pid=1, host="here"),
                ev.ContainersFound(containers=()),
            ],
        )
        write_summary(folder, failed(folder, record))
        assert mentions(tony("replay", JOB).out.splitlines()[1], "starting", "finalized", "failed")


class TestHistory:
    def test_where_everything_is(self, tony: Tony, job: Recorded) -> None:
        """Only what is there, and the summary below."""
        folder, record = job
        write_killed_job(folder, record)
        answer = tony("history", JOB)
        assert [line.split("  ")[0] for line in answer.out.splitlines()[:6]] == [
            "directory",
            "job file",
            "summary",
            "task logs",
            "events",
            "work",
        ]
        assert f"  {folder.summary}\n" in answer.out
        assert "worker:1 on here: exit code 3" in answer.out

    def test_as_json(self, tony: Tony, job: Recorded) -> None:
        answer = tony("history", JOB, "--json").json
        assert answer["places"]["summary"] == str(job[0].summary)
        assert answer["places"]["job_file"] == str(job[0].job)
        assert answer["report"]["state"] == "failed"


class TestKill:
    def test_a_living_job(self, tony: Tony, home: Home) -> None:
        """It is requested, and said where to look."""
        folder, record = recorded(home)
        with living(folder, standing(folder, record, JobState.RUNNING, TaskState.RUNNING)) as beside:
            answer = tony("kill", JOB)
            assert mentions(answer.out, f"job {JOB}", f"tony status {JOB}")
            assert tony("kill", JOB, "--now", "--json").json == {"job": JOB, "asked": True, "state": "running"}
            assert [message.now for message in beside.master.kills] == [False, True]

    def test_an_ended_job(self, tony: Tony, job: Recorded) -> None:
        """It has already ended, and that is no error."""
        answer = tony("kill", JOB)
        assert answer.code == 0
        assert mentions(answer.out, f"job {JOB}", "8 s", "failed")
        assert tony("kill", JOB, "--json").json == {"job": JOB, "asked": False, "state": "failed"}


class TestSettings:
    def test_all(self, tony: Tony) -> None:
        answer = tony("settings", "--all")
        assert answer.code == 0
        assert "\nmax_restarts\n    whole number; default 0\n" in answer.out
        shown = [line for line in answer.out.splitlines() if line and not line.startswith(" ")]
        assert [row.name for row in settings_rows()] == shown

    def test_without_a_name_the_common_ones(self, tony: Tony) -> None:
        answer = tony("settings")
        assert answer.code == 0
        *shown, last = [line for line in answer.out.splitlines() if line and not line.startswith(" ")]
        assert [row.name for row in settings_rows() if is_common(row.name)] == shown
        assert "`tony settings --all`" in last
        assert len(shown) == 15

    def test_a_slip_in_the_name(self, tony: Tony) -> None:
        for name, near in (("memroy", "roles.<role>.memory"), ("roles.worker.memroy", "roles.worker.memory")):
            answer = tony("settings", name)
            assert answer.code == 2
            assert f"did you mean {near}?" in answer.err

    def test_some(self, tony: Tony) -> None:
        assert {row["name"] for row in tony("settings", "GRACE", "--json").json} == {
            "stop_grace",
            "orphan_grace",
            "restart_grace",
            "roles.<role>.restart_grace",
            "roles.<role>.stop_grace",
        }
        values = {row["name"]: row["default"] for row in tony("settings", "--json").json}
        assert (values["max_restarts"], values["stop_grace"], values["stop_on"]) == (0, "15s", "all")
        assert tony("settings", "nothing-like-it").code == 2

    def test_the_setting_of_one_role(self, tony: Tony) -> None:
        for words in (["roles.worker.vcores"], ["<role>", "vcores"]):
            assert [row["name"] for row in tony("settings", *words, "--json").json] == ["roles.<role>.vcores"]

    def test_as_a_page_of_the_docs(self, tony: Tony) -> None:
        assert tony("settings", "--markdown").out.startswith("# Settings\n")


def test_names_do_not_steer_the_terminal(tony: Tony, home: Home) -> None:
    folder, record = recorded(home)
    nasty = replace(failed(folder, record), name="a\x1b[2J\nb")
    write_summary(folder, nasty)
    folder.job.write_text(folder.job.read_text().replace('"digits"', '"a\\u001b[2J\\nb"'))
    for arguments in (["status", JOB], ["list"], ["history", JOB], ["kill", JOB]):
        out = tony(*arguments).out
        assert "\x1b" not in out, arguments
        assert "a\\x1b[2J\\nb" in out, arguments
