"""All operations of the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tony.advice.recommendation import Advice
from tony.core.events import EVENTS
from tony.history.event_queries import MAX_LATEST_EVENTS
from tony.history.goodput import GoodputLedger
from tony.history.metric_buckets import RolePoints
from tony.jobs.comparison import Comparison
from tony.jobs.directory.task_logs import LOG_PIECE, LogSearchResult
from tony.model.codec import Json
from tony.model.job_query import DAMAGED, DEFAULT_PAGE_JOBS, GROUPS, MAX_PAGE_JOBS, JobSort
from tony.model.job_report import FailureClass, JobReport, TaskReport
from tony.model.metric_definitions import Points
from tony.model.states import TaskState
from tony.web.api import job_actions, job_parts, jobs, logs
from tony.web.api.openapi import build_document
from tony.web.api.operation import Operation, OperationCall, Parameter, ParameterKind
from tony.web.api.response_types import (
    ActionAccepted,
    ConfigurationAnswer,
    CurrentUser,
    EventList,
    FileList,
    JobList,
    LinkList,
    LogChunk,
    LogList,
    MetricsIndex,
    TaskList,
    TaskStacks,
    TimelinePage,
)
from tony.web.unused_resources import UnusedHours

#: Of every operation whose path has its name in braces.
_PATH_PARAMETERS = (
    Parameter(name="job", what="the job's id", in_path=True, required=True),
    Parameter(name="name", what="name of a log, as listed by `logs`", in_path=True, required=True),
)
_TASK = Parameter(name="task", what="a task such as worker:0", kind=ParameterKind.TASK, required=True)
_SERIES = Parameter(name="series", what="name of a series, as listed by `metrics`", required=True)
_SPAN = (
    Parameter(name="since", what="seconds since the job was accepted", kind=ParameterKind.NUMBER),
    Parameter(name="until", what="seconds since the job was accepted", kind=ParameterKind.NUMBER),
    Parameter(name="most", what="maximum number of points", kind=ParameterKind.INTEGER, usual=500, least=1, most=5000),
)
_AFTER_TASK = Parameter(name="after", what="`next` of the previous page", kind=ParameterKind.TASK)


def _make_text(name: str, what: str, *choices: str) -> Parameter:
    return Parameter(name=name, what=what, usual="", choices=choices)


def _make_most(what: str, usual: int, most: int) -> Parameter:
    return Parameter(name="most", what=what, kind=ParameterKind.INTEGER, usual=usual, least=1, most=most)


async def _get_document(call: OperationCall) -> Json:
    return build_document(OPERATIONS)


_OPERATIONS = (
    Operation(name="me", path="/me", what="The authenticated user.", handler=jobs.get_current_user, answer=CurrentUser),
    Operation(name="openapi", path="/openapi.json", what="This document.", handler=_get_document, answer=Json),
    Operation(
        name="listJobs",
        path="/jobs",
        what="A page of the jobs that you may see.",
        handler=jobs.list_jobs,
        answer=JobList,
        parameters=(
            _make_text("text", "words in the id, name, user, tags or root cause"),
            _make_text("user", "only jobs of this user"),
            _make_text("state", "a state, `active`, `ended` or `damaged`", *GROUPS, DAMAGED),
            _make_text("framework", "only jobs of this framework"),
            _make_text("scheduler", "only jobs of this scheduler"),
            _make_text("queue", "only jobs of this queue"),
            _make_text("tag", "only jobs with this tag"),
            _make_text(
                "failure_class",
                "only jobs with this class of failure",
                *(failure_class.value for failure_class in FailureClass),
            ),
            _make_text("since", "submitted at or after: an ISO 8601 date or time, or seconds since 1970"),
            _make_text("until", "submitted at or before"),
            _make_text("sort", "sort key; default `submitted`", *(sort.value for sort in JobSort)),
            Parameter(name="descending", what="largest or newest first", kind=ParameterKind.TRUTH, usual=True),
            _make_text("after", "`next` of the previous page"),
            _make_most("jobs per page", DEFAULT_PAGE_JOBS, MAX_PAGE_JOBS),
        ),
    ),
    Operation(
        name="getWaste",
        path="/waste",
        what="GPU- and GB-hours that finished jobs reserved but did not use, by user and week.",
        handler=jobs.get_waste,
        answer=UnusedHours,
        parameters=(
            Parameter(
                name="weeks",
                what="only jobs submitted in this many last weeks",
                kind=ParameterKind.INTEGER,
                usual=4,
                least=1,
                most=520,
            ),
            _make_text("user", "only jobs of this user; empty: all users"),
        ),
    ),
    Operation(
        name="getJob",
        path="/jobs/{job}",
        what="The status of a job, as printed by `tony status --json`.",
        handler=jobs.get_job,
        answer=JobReport,
        parameters=(Parameter(name="tasks", what="include the tasks", kind=ParameterKind.TRUTH, usual=True),),
    ),
    Operation(
        name="listTasks",
        path="/jobs/{job}/tasks",
        what="A page of a job's tasks.",
        handler=jobs.list_tasks,
        answer=TaskList,
        parameters=(
            _make_text("role", "only tasks of this role"),
            _make_text("state", "only tasks in this state", *(state.value for state in TaskState)),
            _AFTER_TASK,
            _make_most("tasks per page", 200, 10_000),
        ),
    ),
    Operation(
        name="getTask",
        path="/jobs/{job}/task",
        what="The status of a task.",
        handler=jobs.get_task,
        answer=TaskReport,
        parameters=(_TASK,),
    ),
    Operation(
        name="listEvents",
        path="/jobs/{job}/events",
        what="A page of a job's events, in order.",
        handler=job_parts.get_events,
        answer=EventList,
        parameters=(
            Parameter(
                name="after",
                what="`next` of the previous page; negative: start this many events before the last one",
                kind=ParameterKind.INTEGER,
                usual=0,
                least=-MAX_LATEST_EVENTS,
            ),
            Parameter(
                name="kind",
                what="only events of these kinds (comma-separated values of `event`)",
                kind=ParameterKind.WORDS,
                usual=frozenset(),
                choices=tuple(EVENTS),
            ),
            _make_most("events per page", 500, 5000),
        ),
    ),
    Operation(
        name="getTimeline",
        path="/jobs/{job}/timeline",
        what="The timeline of a job's tasks.",
        handler=job_parts.get_timeline,
        answer=TimelinePage,
        parameters=(
            Parameter(name="task", what="only this task", kind=ParameterKind.TASK),
            _AFTER_TASK,
            _make_most("tasks per page", 1000, 10_000),
        ),
    ),
    Operation(
        name="getLinks",
        path="/jobs/{job}/links",
        what="Links to the scheduler's web pages about a job, and about the containers of a task.",
        handler=job_parts.get_links,
        answer=LinkList,
        parameters=(Parameter(name="task", what="include this task's containers", kind=ParameterKind.TASK),),
    ),
    Operation(
        name="getGoodput",
        path="/jobs/{job}/goodput",
        what="Where a job's time went: each task-second is in one bucket.",
        handler=job_parts.get_goodput,
        answer=GoodputLedger,
    ),
    Operation(
        name="getAdvice",
        path="/jobs/{job}/advice",
        what="Recommendations to make a job cheaper or safer, based on its latest runs, with changes to the job file.",
        handler=job_parts.get_advice,
        answer=Advice,
    ),
    Operation(
        name="compareJobs",
        path="/jobs/{job}/compare",
        what="Compare a job with another one: results, different settings, where the time went, metrics.",
        handler=jobs.compare,
        answer=Comparison,
        parameters=(Parameter(name="with", what="the other job's id", required=True),),
    ),
    Operation(
        name="getMetrics",
        path="/jobs/{job}/metrics",
        what="The metrics available for a job, its progress and its checkpoints.",
        handler=job_parts.get_metrics,
        answer=MetricsIndex,
    ),
    Operation(
        name="getPoints",
        path="/jobs/{job}/metrics/points",
        what="One series of one task: minimum, mean and maximum per interval.",
        handler=job_parts.get_points,
        answer=Points,
        parameters=(_TASK, _SERIES, *_SPAN),
    ),
    Operation(
        name="getRolePoints",
        path="/jobs/{job}/metrics/role",
        what="One series over all tasks of a role: median, minimum and maximum, and the tasks with these.",
        handler=job_parts.get_role_points,
        answer=RolePoints,
        parameters=(Parameter(name="role", what="the role", required=True), _SERIES, *_SPAN),
    ),
    Operation(
        name="getConfiguration",
        path="/jobs/{job}/configuration",
        what="Every setting of a job, and where it was set; secrets are masked.",
        handler=job_parts.get_configuration,
        answer=ConfigurationAnswer,
    ),
    Operation(
        name="listFiles",
        path="/jobs/{job}/files",
        what="The files in a job's directory.",
        handler=job_parts.list_files,
        answer=FileList,
    ),
    Operation(
        name="getFile",
        path="/jobs/{job}/file",
        what="The content of a file.",
        handler=job_parts.get_file,
        media="application/octet-stream",
        parameters=(Parameter(name="path", what="path of a file, as listed by `files`", required=True),),
    ),
    Operation(
        name="listLogs",
        path="/jobs/{job}/logs",
        what="The logs of a task: one for each stream of each task attempt.",
        handler=logs.list_logs,
        answer=LogList,
        parameters=(_TASK,),
    ),
    Operation(
        name="readLog",
        path="/jobs/{job}/logs/{name}",
        what="A part of a log as text. Continue at `next`.",
        handler=logs.get_chunk,
        answer=LogChunk,
        parameters=(
            Parameter(
                name="offset",
                what="of the first byte; negative: relative to the end",
                kind=ParameterKind.INTEGER,
                usual=0,
            ),
            _make_most("maximum number of bytes", 64 << 10, LOG_PIECE),
        ),
    ),
    Operation(
        name="readLogBytes",
        path="/jobs/{job}/logs/{name}/bytes",
        what="A part of a log as bytes, with secrets masked; empty after the end.",
        handler=logs.get_raw,
        media="application/octet-stream",
        parameters=(
            Parameter(name="offset", what="of the first byte", kind=ParameterKind.INTEGER, usual=0, least=0),
            _make_most("maximum number of bytes", 64 << 10, LOG_PIECE),
        ),
    ),
    Operation(
        name="findInLog",
        path="/jobs/{job}/logs/{name}/find",
        what="Find the line of a log that contains a text. Searches a part of the log; continue at `until`.",
        handler=logs.find,
        answer=LogSearchResult,
        parameters=(
            Parameter(name="text", what="the text; ASCII case is ignored", required=True),
            Parameter(name="offset", what="where to start", kind=ParameterKind.INTEGER, usual=0, least=0),
            Parameter(name="backwards", what="search before `offset`", kind=ParameterKind.TRUTH, usual=False),
        ),
    ),
    Operation(
        name="downloadLog",
        path="/jobs/{job}/logs/{name}/download",
        what="A whole log.",
        handler=logs.get_whole_log,
        media="application/octet-stream",
    ),
    Operation(
        name="stopJob",
        path="/jobs/{job}/stop",
        what="Stop a job.",
        handler=job_actions.stop,
        answer=ActionAccepted,
        changes=True,
    ),
    Operation(
        name="restartJob",
        path="/jobs/{job}/restart",
        what="Stop a job's session and start the next; does not count against max_restarts.",
        handler=job_actions.restart,
        answer=ActionAccepted,
        changes=True,
    ),
    Operation(
        name="dumpStacks",
        path="/jobs/{job}/stacks",
        what="The stack traces of a running task.",
        handler=job_actions.request_stacks,
        answer=TaskStacks,
        parameters=(_TASK,),
        changes=True,
    ),
    Operation(
        name="setLogLevel",
        path="/jobs/{job}/log-level",
        what="Set the log level of a job's application master and executors.",
        handler=job_actions.set_log_level,
        answer=ActionAccepted,
        parameters=(
            Parameter(name="level", what="minimum level", required=True, choices=("debug", "info", "warning", "error")),
        ),
        changes=True,
    ),
)


def _add_path_parameters(operation: Operation) -> Operation:
    in_path = (each for each in _PATH_PARAMETERS if f"{{{each.name}}}" in operation.path)
    return replace(operation, parameters=(*in_path, *operation.parameters))


OPERATIONS: Sequence[Operation] = tuple(_add_path_parameters(operation) for operation in _OPERATIONS)
