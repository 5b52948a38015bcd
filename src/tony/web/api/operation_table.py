"""All operations of the API."""

from __future__ import annotations

from collections.abc import Sequence

from tony.advice.recommendation import Advice
from tony.core.events import EVENTS
from tony.history.goodput import GoodputLedger
from tony.history.metrics_reader import RolePoints
from tony.jobs.comparison import Comparison
from tony.model.codec import Json
from tony.model.job_query import DAMAGED, GROUPS, MOST, PAGE, JobSort
from tony.model.job_report import FailureClass, JobReport, TaskReport
from tony.model.states import TaskState
from tony.protocol.messages import Points
from tony.web.api import job_actions, job_parts, jobs, logs
from tony.web.api.openapi import document
from tony.web.api.operation import Operation, OperationCall, Parameter, ParameterKind
from tony.web.api.responses import (
    Asked,
    Configuration,
    EventList,
    FileList,
    JobList,
    LinkList,
    LogList,
    LogPiece,
    Me,
    MetricsIndex,
    TaskList,
    TaskStacks,
    TimelinePage,
)
from tony.web.job_source import LOG_PIECE, MOST_LATEST_EVENTS, LogSearchResult
from tony.web.unused_resources import Wasted

_JOB = Parameter(name="job", what="the job's id", in_path=True, required=True)
_TASK = Parameter(name="task", what="a task such as worker:0", kind=ParameterKind.TASK, required=True)
_NAME = Parameter(name="name", what="a log's name, as `logs` lists it", in_path=True, required=True)
_SERIES = Parameter(name="series", what="a name of `metrics`", required=True)
_SPAN = (
    Parameter(name="since", what="seconds since the job was accepted", kind=ParameterKind.NUMBER),
    Parameter(name="until", what="seconds since the job was accepted", kind=ParameterKind.NUMBER),
    Parameter(name="most", what="points at most", kind=ParameterKind.INTEGER, usual=500, least=1, most=5000),
)
_AFTER_TASK = Parameter(name="after", what="`next` of the page before", kind=ParameterKind.TASK)


def _text(name: str, what: str, *choices: str) -> Parameter:
    return Parameter(name=name, what=what, usual="", choices=choices)


def _most(what: str, usual: int, most: int) -> Parameter:
    return Parameter(name="most", what=what, kind=ParameterKind.INTEGER, usual=usual, least=1, most=most)


async def _document(call: OperationCall) -> Json:
    return document(OPERATIONS)


OPERATIONS: Sequence[Operation] = (
    Operation(name="me", path="/me", what="Who asks, as this server knows.", handler=jobs.me, answer=Me),
    Operation(name="openapi", path="/openapi.json", what="This document.", handler=_document, answer=Json),
    Operation(
        name="listJobs",
        path="/jobs",
        what="Jobs, a page at a time; only those that you may see.",
        handler=jobs.jobs,
        answer=JobList,
        parameters=(
            _text("text", "words that id, name, user, tags or first cause hold"),
            _text("user", "only this user's"),
            _text("state", "a state, `active`, `ended` or `damaged`", *GROUPS, DAMAGED),
            _text("framework", "only of this framework"),
            _text("scheduler", "only of this scheduler"),
            _text("queue", "only of this queue"),
            _text("tag", "only with this tag"),
            _text("failure_class", "whose failure it was", *(each.value for each in FailureClass)),
            _text("since", "submitted since then: a date or time of ISO 8601, or seconds since 1970"),
            _text("until", "submitted until then"),
            _text("sort", "by what they are ordered; `submitted` unless said", *(each.value for each in JobSort)),
            Parameter(name="descending", what="largest or newest first", kind=ParameterKind.TRUTH, usual=True),
            _text("after", "`next` of the page before"),
            _most("jobs on the page", PAGE, MOST),
        ),
    ),
    Operation(
        name="getWaste",
        path="/waste",
        what="Hours that jobs held for nothing, by user and week; of those that have ended, and that you may see.",
        handler=jobs.waste,
        answer=Wasted,
        parameters=(
            Parameter(
                name="weeks",
                what="submitted in the last so many",
                kind=ParameterKind.INTEGER,
                usual=4,
                least=1,
                most=520,
            ),
            _text("user", "whose; everybody's if it is empty"),
        ),
    ),
    Operation(
        name="getJob",
        path="/jobs/{job}",
        what="How a job stands: what `tony status --json` prints.",
        handler=jobs.job,
        answer=JobReport,
        parameters=(_JOB, Parameter(name="tasks", what="with its tasks", kind=ParameterKind.TRUTH, usual=True)),
    ),
    Operation(
        name="listTasks",
        path="/jobs/{job}/tasks",
        what="Its tasks, a page at a time.",
        handler=jobs.tasks,
        answer=TaskList,
        parameters=(
            _JOB,
            _text("role", "only of this role"),
            _text("state", "only in this state", *(each.value for each in TaskState)),
            _AFTER_TASK,
            _most("tasks on the page", 200, 10_000),
        ),
    ),
    Operation(
        name="getTask",
        path="/jobs/{job}/task",
        what="How one task stands.",
        handler=jobs.task,
        answer=TaskReport,
        parameters=(_JOB, _TASK),
    ),
    Operation(
        name="listEvents",
        path="/jobs/{job}/events",
        what="What happened to it, in order.",
        handler=job_parts.events,
        answer=EventList,
        parameters=(
            _JOB,
            Parameter(
                name="after",
                what="`next` of the page before; negative: begin so many before the last one",
                kind=ParameterKind.INTEGER,
                usual=0,
                least=-MOST_LATEST_EVENTS,
            ),
            Parameter(
                name="kind",
                what="of these kinds alone, as `event` names them, with commas between them",
                kind=ParameterKind.WORDS,
                usual=frozenset(),
                choices=tuple(EVENTS),
            ),
            _most("events on the page", 500, 5000),
        ),
    ),
    Operation(
        name="getTimeline",
        path="/jobs/{job}/timeline",
        what="What its tasks did when.",
        handler=job_parts.timeline,
        answer=TimelinePage,
        parameters=(
            _JOB,
            Parameter(name="task", what="only of this task", kind=ParameterKind.TASK),
            _AFTER_TASK,
            _most("tasks on the page", 1000, 10_000),
        ),
    ),
    Operation(
        name="getLinks",
        path="/jobs/{job}/links",
        what="Where its scheduler's own pages show it, and the containers of one of its tasks.",
        handler=job_parts.links,
        answer=LinkList,
        parameters=(_JOB, Parameter(name="task", what="with this task's containers", kind=ParameterKind.TASK)),
    ),
    Operation(
        name="getGoodput",
        path="/jobs/{job}/goodput",
        what="Where its time went: each task-second falls into one bucket.",
        handler=job_parts.goodput,
        answer=GoodputLedger,
        parameters=(_JOB,),
    ),
    Operation(
        name="getAdvice",
        path="/jobs/{job}/advice",
        what="How it could be cheaper or safer, by its last runs, with the change to its file.",
        handler=job_parts.advice,
        answer=Advice,
        parameters=(_JOB,),
    ),
    Operation(
        name="compareJobs",
        path="/jobs/{job}/compare",
        what="It and another one: how they went, which settings differ, where the time went, what was measured.",
        handler=jobs.compare,
        answer=Comparison,
        parameters=(_JOB, Parameter(name="with", what="the other job's id", required=True)),
    ),
    Operation(
        name="getMetrics",
        path="/jobs/{job}/metrics",
        what="What was measured, and of whom.",
        handler=job_parts.metrics,
        answer=MetricsIndex,
        parameters=(_JOB,),
    ),
    Operation(
        name="getPoints",
        path="/jobs/{job}/metrics/points",
        what="One series of one task: least, mean and most of each span.",
        handler=job_parts.points,
        answer=Points,
        parameters=(_JOB, _TASK, _SERIES, *_SPAN),
    ),
    Operation(
        name="getRolePoints",
        path="/jobs/{job}/metrics/role",
        what="One series over all tasks of a role: median and extremes, and whose those are.",
        handler=job_parts.role_points,
        answer=RolePoints,
        parameters=(_JOB, Parameter(name="role", what="the role", required=True), _SERIES, *_SPAN),
    ),
    Operation(
        name="getConfiguration",
        path="/jobs/{job}/configuration",
        what="Every value of the job, and where it was set; secrets are masked.",
        handler=job_parts.configuration,
        answer=Configuration,
        parameters=(_JOB,),
    ),
    Operation(
        name="listFiles",
        path="/jobs/{job}/files",
        what="The files of its record.",
        handler=job_parts.files,
        answer=FileList,
        parameters=(_JOB,),
    ),
    Operation(
        name="getFile",
        path="/jobs/{job}/file",
        what="One of them, as it is.",
        handler=job_parts.file,
        media="application/octet-stream",
        parameters=(_JOB, Parameter(name="path", what="as `files` lists it", required=True)),
    ),
    Operation(
        name="listLogs",
        path="/jobs/{job}/logs",
        what="What one task printed: a log for each stream of each try.",
        handler=logs.logs,
        answer=LogList,
        parameters=(_JOB, _TASK),
    ),
    Operation(
        name="readLog",
        path="/jobs/{job}/logs/{name}",
        what="A piece of a log, by bytes. Go on at `next`.",
        handler=logs.piece,
        answer=LogPiece,
        parameters=(
            _JOB,
            _NAME,
            Parameter(
                name="offset",
                what="of the first byte; negative: so many before the end",
                kind=ParameterKind.INTEGER,
                usual=0,
            ),
            _most("bytes at most", 64 << 10, LOG_PIECE),
        ),
    ),
    Operation(
        name="readLogBytes",
        path="/jobs/{job}/logs/{name}/bytes",
        what="The same as bytes, but for secrets as they were printed; none behind the end.",
        handler=logs.raw,
        media="application/octet-stream",
        parameters=(
            _JOB,
            _NAME,
            Parameter(name="offset", what="of the first byte", kind=ParameterKind.INTEGER, usual=0, least=0),
            _most("bytes at most", 64 << 10, LOG_PIECE),
        ),
    ),
    Operation(
        name="findInLog",
        path="/jobs/{job}/logs/{name}/find",
        what="The line of a log in which a text stands. It looks through a part at a time: go on at `until`.",
        handler=logs.find,
        answer=LogSearchResult,
        parameters=(
            _JOB,
            _NAME,
            Parameter(name="text", what="A to Z and a to z are alike", required=True),
            Parameter(name="offset", what="where to begin", kind=ParameterKind.INTEGER, usual=0, least=0),
            Parameter(name="backwards", what="look before `offset`", kind=ParameterKind.TRUTH, usual=False),
        ),
    ),
    Operation(
        name="downloadLog",
        path="/jobs/{job}/logs/{name}/download",
        what="All of a log.",
        handler=logs.whole,
        media="application/octet-stream",
        parameters=(_JOB, _NAME),
    ),
    Operation(
        name="stopJob",
        path="/jobs/{job}/stop",
        what="End the job.",
        handler=job_actions.stop,
        answer=Asked,
        parameters=(_JOB,),
        changes=True,
    ),
    Operation(
        name="restartJob",
        path="/jobs/{job}/restart",
        what="End its session and begin the next; no restart is charged for it.",
        handler=job_actions.restart,
        answer=Asked,
        parameters=(_JOB,),
        changes=True,
    ),
    Operation(
        name="dumpStacks",
        path="/jobs/{job}/stacks",
        what="Where every thread of a task's program stands.",
        handler=job_actions.stacks,
        answer=TaskStacks,
        parameters=(_JOB, _TASK),
        changes=True,
    ),
    Operation(
        name="setLogLevel",
        path="/jobs/{job}/log-level",
        what="How much its application master and executors log.",
        handler=job_actions.log_level,
        answer=Asked,
        parameters=(
            _JOB,
            Parameter(
                name="level", what="from which level on", required=True, choices=("debug", "info", "warning", "error")
            ),
        ),
        changes=True,
    ),
)
