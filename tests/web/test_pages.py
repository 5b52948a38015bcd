"""Pages say what there is, link only relatively, and bring nothing along that a strict policy would refuse."""

from __future__ import annotations

import html
import os
import re
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import pytest
from starlette.types import ASGIApp

from tests.web.home_source import HomeSource
from tests.web.sample_jobs import as_peer, fetch, keep
from tony.advice.recommendation import Advice, Recommendation, Saving, Severity
from tony.core.sentences import describe_failure
from tony.diagnosis.failure_diagnosis import diagnose
from tony.executor.output.log_file import BoundedLogFile
from tony.history.job_record import read_summary, write_summary
from tony.history.metrics_schema import TaskMetricsUpdate
from tony.history.metrics_writer import MetricsWriter
from tony.jobs.task_use import TaskUse
from tony.model.diagnosis import Diagnosis, EvidenceLine, FailureKind, LineMeaning
from tony.model.failure import (
    ContainerFacts,
    ContainerLoss,
    ExitFacts,
    Failure,
    FailureCause,
    FailureClass,
    FailureFacts,
    SilenceFacts,
)
from tony.model.ids import TaskId
from tony.model.job_report import JobReport, TaskReport
from tony.model.progress import Progress
from tony.model.progress_rules import measure_job, measure_task
from tony.model.state_directory import Home, JobFolder
from tony.model.states import JobState, TaskState
from tony.web.app import create
from tony.web.assets import load_assets
from tony.web.pages import job as job_page
from tony.web.pages import job_tabs, task_table
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator

JOB = "local-20260101-000000-0a1b2c"
OTHER = "local-20260102-000000-0a1b2c"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Two runs of a job; the first failed."""
    home = Home(tmp_path_factory.mktemp("home"))
    folder = keep(home, JOB, env={"EPOCHS": "3"})
    keep(home, OTHER, env={"EPOCHS": "4"})
    _fail(folder)
    lines = b"".join(b"line %06d of the log\n" % number for number in range(20_000))
    (folder.logs / "worker-0.s1.t1.out").write_bytes(lines)
    return home


def _fail(folder: JobFolder, **more: object) -> None:
    report = _report(folder)
    failure = Failure(
        failure_class=FailureClass.USER,
        cause=FailureCause.PROGRAM,
        reason="worker:0 on node7: exit code 3",
        session=1,
        at=3.0,
        task=TaskId.parse(report.tasks[0].task),
        host="node7",
        exit_code=3,
        tail=("\x1b[31mno such file\x1b[0m",),
        log="logs/worker-0.s1.t1.err",
        others=("worker:1 was lost",),
    )
    ended = replace(report, state=JobState.FAILED, exit_code=1, failure=failure)
    write_summary(folder, replace(ended, **more))  # type: ignore[arg-type]


def _report(folder: JobFolder) -> JobReport:
    report = read_summary(folder)
    assert report is not None
    return report


@pytest.fixture(scope="module")
def timed(home: Home) -> str:
    """A job whose tasks print in turn, in two sessions; its id."""
    job = "local-20260103-000000-0a1b2c"
    folder = keep(home, job)
    for path in folder.logs.iterdir():
        path.unlink()
    now = datetime(2026, 1, 31, 18, tzinfo=UTC).timestamp()
    for name, pieces in {
        "worker-0.s1.t1.out": [("old\n", -9.0)],
        "worker-0.s2.t1.out": [("begins\n", 0.0), ("\x1b[31mred\n", 1.0), ("still red\n", 2.0)],
        "worker-1.s2.t1.out": [("begins, too\n", 0.5)],
        "worker-1.s2.t1.err": [("<b>warns</b>\n", 1.5)],
    }.items():
        file = BoundedLogFile(folder.logs / name, 1 << 20)
        for text, at in pieces:
            file.write(text.encode(), now + at)
        file.close()
    return job


@pytest.fixture(scope="module")
def app(home: Home) -> ASGIApp:
    return _app(home)


def _app(home: Home, only: str = "") -> ASGIApp:
    authenticator = Authenticator(AuthConfig(key=b"k" * 32, owner="ann"))
    return as_peer(create(ServerContext(HomeSource(home, "ann"), authenticator, only=only)), os.geteuid())


class _Tags(HTMLParser):
    """All tags of a page, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    @property
    def links(self) -> set[str]:
        return {
            value or ""
            for _, attrs in self.tags
            for name, value in attrs.items()
            if name in ("href", "src", "data-wait", "data-more", "data-charts", "data-later")
        }

    @property
    def actions(self) -> set[str]:
        return {value or "" for _, attrs in self.tags for name, value in attrs.items() if name in ("action",)}


def kind(path: str) -> str:
    """What sort of page an address leads to: one of each is enough."""
    parts = urlsplit(path)
    names = "&".join(sorted(parse_qs(parts.query)))
    place = re.sub(r"/task/[^/]+", "/task/T", parts.path)
    return f"{place}?{names}".replace(OTHER, "J").replace(JOB, "J")


def crawl(app: ASGIApp, prefix: str) -> dict[str, httpx.Response]:
    """One page of each kind that can be reached from the first one, all of it below a prefix: kind -> answer."""
    seen: dict[str, httpx.Response] = {}
    waiting = [prefix]
    while waiting:
        at = waiting.pop()
        assert urlsplit(at).path.startswith(prefix), f"{at} leads out of {prefix}"
        below = "/" + at.removeprefix(prefix)
        if kind(below) in seen:
            continue
        seen[kind(below)] = answer = fetch(app, below)
        if answer.headers["content-type"].startswith("text/html"):
            page = _Tags(answer.text)
            for link in page.links | page.actions:
                assert re.match(r"\.\.?/|#", link), f"{link} on {at} is not relative"
            waiting += sorted(urljoin(at, link).split("#")[0] for link in page.links)
    return seen


@pytest.fixture(scope="module")
def pages(app: ASGIApp) -> dict[str, httpx.Response]:
    """All of them, below the prefix of a proxy."""
    return crawl(app, "/proxy/application_1_2/")


def test_every_link_leads_somewhere(pages: dict[str, httpx.Response]) -> None:
    """Whatever a page names is there, below the prefix under which it was reached."""
    assert {} == {path: answer.status_code for path, answer in pages.items() if answer.status_code != 200}
    for part in ("tasks", "logs", "metrics", "events", "advice", "settings", "files", "task/T"):
        assert f"/job/J/{part}?" in pages
    assert "/job/J/logs?stream&task" in pages
    assert "/compare?job" in pages


def test_nothing_is_inline(pages: dict[str, httpx.Response]) -> None:
    """No style and no script stands in a page, no handler, and no address of another server."""
    for path, answer in pages.items():
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        page = _Tags(answer.text)
        for tag, attrs in page.tags:
            assert "style" not in attrs, path
            assert tag != "style", path
            assert tag != "script" or attrs.get("src"), path
            assert not [name for name in attrs if name.startswith("on")], path
        assert "http://" not in re.sub(r"(xmlns|content)=\"[^\"]*\"", "", answer.text).replace("http://127", ""), path


def test_a_job_alone(home: Home) -> None:
    """Beside its own application master the job is the first page, and nothing else is there."""
    app = _app(home, JOB)
    seen = crawl(app, "/proxy/application_1_2/")
    assert {200} == {answer.status_code for answer in seen.values()}
    assert "worker:0 on node7: exit code 3" in seen["/?"].text
    assert {"/task/T?", "/logs?", "/events?"} <= set(seen)
    assert 404 == fetch(app, f"/job/{JOB}").status_code
    assert not [path for path in seen if "compare" in path]


def test_the_failure_is_first(app: ASGIApp) -> None:
    """Reason, last lines in their colours, the link to all of them; before everything else on the page."""
    text = fetch(app, f"/job/{JOB}").text
    assert text.index("worker:0 on node7: exit code 3") < text.index("Timeline")
    assert '<span class="f1">no such file</span>' in text
    assert f"../job/{JOB}/logs?task=worker%3A0&amp;session=1" in text
    assert "worker:1 was lost" in text


@pytest.mark.parametrize(
    ("state", "said", "bars"),
    [
        (JobState.SUCCEEDED, "Last reported step: 49 of 50", 0),
        (JobState.FAILED, "</strong> · step 49 of 50", 1),
    ],
)
def test_a_succeeded_job_has_no_partial_progress(tmp_path: Path, state: JobState, said: str, bars: int) -> None:
    """A job that counts from 0 and succeeded is complete: no bar at 98 %."""
    home = Home(tmp_path)
    folder = keep(home, JOB)
    report = _report(folder)
    tasks = tuple(replace(task, state=TaskState(state.value)) for task in report.tasks)
    write_summary(folder, replace(report, state=state, tasks=tasks))
    writer = MetricsWriter(folder.metrics, JOB, 5.0)
    writer.write([], [Progress(report.tasks[0].task, 1, 1, 0.0, 1.0, 49.0, 50.0, 50.0)])
    writer.close()
    app = _app(home)
    text = fetch(app, f"/job/{JOB}").text
    told = fetch(app, f"/api/v1/jobs/{JOB}/metrics").json()["job_progress"]
    assert (told["step"], told["total"], told["stalled"]) == (49.0, 50.0, None)
    assert said in text
    assert bars == text.count("<progress") == text.count('value="0.9800"')


def test_the_first_page_is_small(tmp_path: Path) -> None:
    """Fifty jobs with all that the page loads: less than 150 kB, nothing of it compressed."""
    home = Home(tmp_path)
    folder = keep(home, "local-20260101-000000-000000")
    for number in range(60):
        other = keep(home, f"local-20260101-000000-{number:06x}") if number else folder
        _fail(other, job=other.job_id, tags=("a tag", "another tag"))
    answer = fetch(_app(home), "/")
    tags = _Tags(answer.text).tags
    assert 50 == sum(attrs.get("class") == "name" for _, attrs in tags)
    loaded = {attrs.get("src") or attrs.get("href") for tag, attrs in tags if tag in ("script", "link")}
    whole = len(answer.content) + sum(len(fetch(_app(home), urljoin("/", str(each))).content) for each in loaded)
    assert whole < 150_000


def test_files_of_ours_are_kept_by_browsers(app: ASGIApp) -> None:
    """Under a name that changes with what is in them, for ever; another name is none."""
    name = load_assets()["style.css"].name
    answer = fetch(app, f"/assets/{name}")
    assert "immutable" in answer.headers["cache-control"]
    again = fetch(app, f"/assets/{name}", headers={"If-None-Match": answer.headers["etag"]})
    assert (304, b"") == (again.status_code, again.content)
    assert 404 == fetch(app, "/assets/style.css").status_code


def test_the_charts_are_those_that_were_tried() -> None:
    """Another version of their code may break a policy, or draw something else."""
    assert b"v1.6.18" in load_assets()["uplot.js"].content[:300]


def _read_lines(text: str) -> list[str]:
    """Return the lines of output on a page, each with what stands in front of it."""
    (log,) = re.findall(r'<pre class="log full lines">(.*?)</pre>', text, re.DOTALL) or [""]
    lines = re.findall(r'<(?:span|mark) class="line.*?>(.*?)</(?:span|mark)>(?=<(?:span|mark) class="line|$)', log)
    return [html.unescape(re.sub(r"<[^>]*>", "", line)) for line in lines]


def _find_link(text: str, label: str) -> str:
    found = re.search(rf'href="[^"?]*([?][^"]*)"[^>]*>{label}<', text)
    assert found is not None, label
    return html.unescape(found[1])


def test_lines_of_all_tasks_in_order(app: ASGIApp, timed: str) -> None:
    """Times in front, then the task, what is from standard error; a colour continues on the next line of its log."""
    text = fetch(app, f"/job/{timed}/logs").text
    assert _read_lines(text) == [
        "01-31 18:00:00.00 worker:0 begins",
        "01-31 18:00:00.50 worker:1 begins, too",
        "01-31 18:00:01.00 worker:0 red",
        "01-31 18:00:01.50 worker:1 err <b>warns</b>",
        "01-31 18:00:02.00 worker:0 still red",
    ]
    assert '<span class="f1">still red</span>' in text
    assert '<time data-exact datetime="2026-01-31T18:00:01.50Z">' in text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("task=worker:1", ["begins, too", "<b>warns</b>"]),
        ("task=worker&stream=err", ["<b>warns</b>"]),
        ("text=BEGINS", ["begins", "begins, too"]),
        ("session=1", ["old"]),
        ("session=all&task=worker:0", ["old", "begins", "red", "still red"]),
        ("since=2026-01-31T18:00:01.2", ["<b>warns</b>", "still red"]),
        ("after=start&text=red", ["red", "still red"]),
        ("text=nothing+like+it", []),
    ],
)
def test_lines_are_filtered_by_the_address(app: ASGIApp, timed: str, query: str, expected: list[str]) -> None:
    lines = _read_lines(fetch(app, f"/job/{timed}/logs?{query}").text)
    assert [re.sub(r"^\S+ \S+ (worker:\d )?(s\d )?(err )?", "", line) for line in lines] == expected
    words = query.replace("session=all", "all_sessions=yes")
    answer = fetch(app, f"/api/v1/jobs/{timed}/lines?{words}").json()
    assert [re.sub("\x1b.*?m", "", line["line"]) for line in answer["lines"]] == expected
    assert answer["is_complete"]


def test_a_line_that_was_found_leads_to_those_around_it(app: ASGIApp, timed: str) -> None:
    text = fetch(app, f"/job/{timed}/logs?text=warns").text
    around = fetch(app, f"/job/{timed}/logs{_find_link(text, '<time.*?</time>')}").text
    assert len(_read_lines(around)) == 5
    assert re.search('<mark class="line err" id="hit">.*warns', around)


def test_logs_page_by_page(app: ASGIApp) -> None:
    """From the end to the beginning and on again: every line once, whatever the size of the log."""
    at = f"/job/{JOB}/logs"
    text = fetch(app, f"{at}?stream=out").text
    found: list[str] = []
    for _ in range(3):
        found = _read_lines(text) + found
        text = fetch(app, at + _find_link(text, "Earlier")).text
    assert [line[-22:] for line in found] == [f"line {number:06d} of the log" for number in range(18_500, 20_000)]
    start = fetch(app, at + _find_link(text, "Start")).text
    following = fetch(app, at + _find_link(start, "Later")).text
    lines = _read_lines(start) + _read_lines(following)
    assert [line[-22:] for line in lines] == [f"line {number:06d} of the log" for number in range(1000)]
    assert "Start" not in start[start.index("h-logs") :]


def test_a_log_as_it_is(app: ASGIApp, home: Home) -> None:
    """A download has every byte, under a name that says whose it is."""
    page = f"/job/{JOB}/logs?task=worker:0&stream=out"
    (href,) = re.findall(r'download href="([^"]*)"', fetch(app, page).text)
    answer = fetch(app, urljoin(page, href))
    assert (home.job(JOB).logs / "worker-0.s1.t1.out").read_bytes() == answer.content
    assert f"{JOB}.worker-0.s1.t1.out.log" in answer.headers["content-disposition"]


def test_events_a_page_at_a_time(app: ASGIApp) -> None:
    """The latest first; from number 0 on, all of them in order and each once, but for those that only tony needs."""
    at = f"/job/{JOB}/events"

    def numbers(text: str) -> list[int]:
        return [int(each) for each in re.findall(r'<tr><td class="number">(\d+)</td>', text)]

    latest = numbers(fetch(app, at).text)
    assert latest == sorted(set(latest))
    found = numbers(fetch(app, f"{at}?after=0").text)
    while found[-1] < latest[-1]:
        found += numbers(fetch(app, f"{at}?after={found[-1]}").text)
    assert found == sorted(set(found))
    assert {*latest} <= {*found}


def test_events_of_some_kinds(app: ASGIApp) -> None:
    """They are those that a look at all of them finds, however few are taken at a time."""
    at = f"/api/v1/jobs/{JOB}/events"
    everything = fetch(app, f"{at}?most=5000").json()["events"]
    wanted = ("session-opened", "registered")
    expected = [each for each in everything if each["event"] in wanted]
    assert 2 < len(expected) < len(everything)
    found: list[object] = []
    after = 0
    while page := fetch(app, f"{at}?kind=registered,session-opened&most=2&after={after}").json()["events"]:
        found += page
        after = page[-1]["seq"]
    assert expected == found
    last = fetch(app, f"{at}?kind=registered,session-opened&after=-{len(everything)}").json()["events"]
    assert expected == last
    refused = fetch(app, f"{at}?kind=registered,register")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "bad-parameter")
    assert "registered,register" in refused.text
    assert "session-opened" in refused.text


def test_tasks_are_chosen_and_ordered(tmp_path: Path) -> None:
    """250 tasks: a hundred on a page, by state, by words, by column; the address keeps it all."""
    home = Home(tmp_path)
    folder = keep(home)
    states = (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED)
    tasks = tuple(
        TaskReport(
            task=f"worker:{n}",
            role="worker",
            index=n,
            state=states[n % 3],
            host=f"node{n % 7}",
            since=float(n),
            note="",
        )
        for n in range(250)
    )
    write_summary(folder, replace(_report(folder), tasks=tasks))
    app = _app(home)

    def shown(query: str) -> list[int]:
        text = fetch(app, f"/job/{folder.job_id}/tasks{query}").text
        return [int(each) for each in re.findall(r'class="name" href="[^"]*/task/worker:(\d+)"', text)]

    assert list(range(100)) == shown("")
    assert list(range(200, 250)) == shown("?from=200")
    assert list(range(200, 250)) == shown("?from=99999")
    assert [n for n in range(250) if n % 3 == 1] == shown("?state=failed")
    assert [n for n in range(250) if n % 7 == 3 and n % 3 == 1] == shown("?state=failed&text=NODE3")
    assert list(range(249, 149, -1)) == shown("?sort=since")
    assert list(range(249, 149, -1)) == shown("?reverse=yes")
    assert 400 == fetch(app, f"/job/{folder.job_id}/tasks?state=odd").status_code
    assert 404 == fetch(app, f"/job/{folder.job_id}/task/worker:999").status_code


def test_the_first_page_of_a_large_job_shows_important_tasks(tmp_path: Path) -> None:
    """Failed tasks, then lost or running ones, then the others, each in the order of the job file; a dozen of them."""
    home = Home(tmp_path)
    folder = keep(home)
    states = {3: TaskState.RUNNING, 17: TaskState.LOST, 21: TaskState.FAILED, 30: TaskState.FAILED}
    tasks = tuple(
        TaskReport(task=f"worker:{n}", role="worker", index=n, state=states.get(n, TaskState.SUCCEEDED))
        for n in range(40)
    )
    write_summary(folder, replace(_report(folder), tasks=tasks))
    text = fetch(_app(home), f"/job/{folder.job_id}").text
    table = text[text.index('<h2 id="h-tasks"') :]
    shown = [int(each) for each in re.findall(r'class="name" href="[^"]*/task/worker:(\d+)"', table)]
    assert [21, 30, 17, 3, 0, 1, 2, 4, 5, 6, 7, 8] == shown
    assert "All 40 tasks" in table


def test_the_first_page_of_a_large_job_shows_the_slowest_tasks(tmp_path: Path) -> None:
    """The others wait for them."""
    home = Home(tmp_path)
    folder = keep(home)
    names = [f"worker:{n}" for n in range(40)]
    tasks = tuple(
        TaskReport(task=name, role="worker", index=n, state=TaskState.RUNNING) for n, name in enumerate(names)
    )
    write_summary(folder, replace(_report(folder), tasks=tasks))
    steps = {name: 5.0 if name == "worker:33" else 9.0 for name in names[1:]}
    writer = MetricsWriter(folder.metrics, folder.job_id, 5.0)
    writer.write([], [Progress(name, 1, 1, 1.0, 1.0, step, 9.0) for name, step in steps.items()])
    writer.close()
    text = fetch(_app(home), f"/job/{folder.job_id}").text
    shown = re.findall(r'class="name" href="[^"]*/task/(worker:\d+)"', text)
    assert shown[:3] == ["worker:33", "worker:1", "worker:2"]


def test_a_job_without_other_runs_can_be_compared(tmp_path: Path) -> None:
    """Jobs of other names are offered, and the parts of the job stay where they are."""
    home = Home(tmp_path)
    keep(home, JOB)
    keep(home, OTHER, name="another")
    text = fetch(_app(home), f"/compare?job={JOB}").text
    assert "no other job with this name" in text
    assert re.search(rf'<option value="{OTHER}">.*another', text)
    assert 'aria-current="page">Compare</a>' in text
    assert ">Metrics</a>" in text


def test_three_jobs_are_compared(tmp_path: Path) -> None:
    """A column and a line for each; more than eight have no colours of their own."""
    home = Home(tmp_path)
    names = {f"local-20260101-000000-00000{number}": f"run{number}" for number in range(9)}
    for job, name in names.items():
        keep(home, job, name=name)
    app = _app(home)
    chosen = list(names)[:3]
    query = "&".join(f"job={job}" for job in chosen)
    text = fetch(app, f"/compare?{query}&smooth=0.6").text
    assert "Compare 3 jobs" in text
    assert text.count('<th scope="col">') % 3 == 0
    (points,) = {link for link in _Tags(text).links if "compare/points" in link}
    found = fetch(app, f"{urljoin('/compare', points)}&series=cpu").json()
    assert [line["label"] for line in found["lines"]] == [f"{names[job]} {job[-6:]}" for job in chosen]
    assert found["lines"][0]["unsmoothed"] == [1.5, 2.5]
    assert [(value["label"], value["text"]) for value in found["values"]] == [
        (line["label"], "2.5 cores") for line in found["lines"]
    ]
    refused = fetch(app, "/compare?" + "&".join(f"job={job}" for job in names))
    assert (refused.status_code, "At most 8" in refused.text) == (400, True)


def test_the_list_shows_the_line_that_proves_a_failure(tmp_path: Path) -> None:
    """All failed programs have an exit code; the last line of the traceback tells them apart, and is found."""
    home = Home(tmp_path)
    _fail(keep(home, JOB))
    _fail_with_evidence(home)
    app = _app(home)
    assert '<span class="reason">KeyError: &#39;y&#39;</span>' in fetch(app, "/").text
    assert JOB in fetch(app, "/?text=KeyError").text
    assert JOB not in fetch(app, "/?text=ValueError").text


def _fail_with_evidence(home: Home) -> Failure:
    """Give the job that failed a diagnosis."""
    folder = home.job(JOB)
    report = _report(folder)
    assert report.failure is not None
    line = EvidenceLine(stream="err", number=7, text="KeyError: 'y'", ago=0.1, rule="python-exception")
    diagnosis = Diagnosis(kind=FailureKind.USER_CODE, meaning=LineMeaning.CAUSE, retry=True, evidence=(line,))
    failure = replace(report.failure, reason=f"worker:1: exit code 3: {line.text}", diagnosis=diagnosis)
    write_summary(folder, replace(report, failure=failure))
    return failure


def test_a_job_that_restarted_says_why(tmp_path: Path) -> None:
    """Kind, evidence, and the log of that session, though the job has no failure now."""
    home = Home(tmp_path)
    folder = keep(home, JOB)
    _fail(folder)
    failure = _fail_with_evidence(home)
    report = replace(_report(folder), state=JobState.SUCCEEDED, failure=None, session=2, previous_failure=failure)
    write_summary(folder, report)
    text = fetch(_app(home), f"/job/{JOB}").text
    card = text[text.index('id="failure"') : text.index('id="h-timeline"')]
    for part in ("Why session 2 was started", "user-code", "KeyError: &#39;y&#39;", "Log of session 1"):
        assert part in card
    assert f"logs?task=worker%3A0&amp;session={failure.session}" in card


def test_a_hang_has_the_stack_traces_of_its_session(tmp_path: Path) -> None:
    """Those of the root task first."""
    home = Home(tmp_path)
    folder = keep(home, JOB)
    _fail(folder)
    report = _report(folder)
    assert report.failure is not None
    hung = replace(report.failure, cause=FailureCause.HANG, task=TaskId("worker", 1), session=2)
    write_summary(folder, replace(report, failure=hung))
    for name in ("worker-0.s2.t1", "worker-1.s1.t1", "worker-1.s2.t1"):
        (folder.logs / f"{name}.stacks").write_text("train (t.py:1)")
    text = fetch(_app(home), f"/job/{JOB}").text
    card = text[text.index('id="failure"') : text.index('id="h-timeline"')]
    links = re.findall(r'href="[^"]*(/api/v1/[^"]*=logs%2F)([^"]*stacks)"', card)
    assert [name for _, name in links] == ["worker-1.s2.t1.stacks", "worker-0.s2.t1.stacks"]
    assert fetch(_app(home), "".join(links[0])).text == "train (t.py:1)"


def test_a_recommendation_that_answers_a_failure_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The card of the failure has the lines for the job file; below it are other recommendations, and other roles."""
    home = Home(tmp_path)
    folder = keep(home, JOB)
    _fail(folder)
    report = _report(folder)
    assert report.failure is not None
    patch = ("[roles.worker]", 'memory = "384m"')
    diagnosis = Diagnosis(kind=FailureKind.MEMORY, meaning=LineMeaning.CAUSE, retry=False, patch=patch)
    write_summary(folder, replace(report, failure=replace(report.failure, diagnosis=diagnosis)))

    def recommend(heuristic: str, role: str) -> Recommendation:
        return Recommendation(
            heuristic=heuristic,
            severity=Severity.HIGH,
            role=role,
            says=f"{heuristic} of {role}",
            evidence=(),
            saving=Saving(),
        )

    findings = (recommend("memory-tight", "worker"), recommend("memory-tight", "ps"), recommend("gpus-idle", "worker"))

    async def load(*_: object) -> Advice:
        return Advice(job=JOB, runs=(JOB,), findings=findings, patch=())

    monkeypatch.setattr(job_tabs, "load_advice", load)
    app = _app(home)
    card = fetch(app, f"/job/{JOB}").text
    assert "memory = &#34;384m&#34;" in card[card.index('id="failure"') : card.index('id="h-timeline"')]
    part = fetch(app, f"/job/{JOB}/advice?part=few").text
    assert re.findall(r"\S+ of \w+(?=</h3>)", part) == ["memory-tight of ps", "gpus-idle of worker"]
    assert "memory-tight of worker" in fetch(app, f"/job/{JOB}/advice").text


def test_a_page_without_script_has_the_numbers_of_the_terminal(tmp_path: Path) -> None:
    """Newest loss, rate and use of the job, and of each task, as `tony top` and `tony status` have them."""
    home = Home(tmp_path)
    folder = keep(home, JOB)
    first = _report(folder).tasks[0].task
    writer = MetricsWriter(folder.metrics, JOB, 5.0)
    series = {name: (value,) * 3 for name, value in (("user.loss", 0.125), ("cpu", 1.5), ("rss", 64.0 * 2**20))}
    update = TaskMetricsUpdate(first, first.partition(":")[0], 5.0, True, 0, {**series, "step": (40.0,) * 3})
    writer.write([update], [Progress(first, 1, 1, 0.0, 0.0, 40.0, 16.0, 50.0)])
    writer.close()
    app = _app(home)
    text = fetch(app, f"/job/{JOB}").text
    strip = text[text.index('id="charts"') : text.index('id="h-timeline"')]
    assert re.findall(r'data-series="([^"]*)"', strip) == ["user.loss", "step-rate", "cpu", "rss"]
    assert re.findall(r"<b>([^<]*)</b></span>", strip) == ["0.125", "2.5/s", "1.5 cores", "64 MiB"]
    for page in ("", "/tasks", "/tasks?sort=memory"):
        table = fetch(app, f"/job/{JOB}{page}").text
        row = table[table.index(f'/task/{first}">{first}</a></th>') :].partition("</tr>")[0]
        assert re.search(r'data-label="Step"[^>]*>40 <span class="of">of 50<', row)
        assert re.search(r'data-label="Rate"[^>]*>2.5/s<', row)
        assert re.search(r'data-label="CPU"[^>]*>1.5 cores<', row)


def test_the_address_of_the_metrics_chooses_how_they_are_drawn(app: ASGIApp) -> None:
    """Axis, scale and smoothing; the link to the data keeps them, and other values are refused."""
    text = fetch(app, f"/job/{JOB}/metrics?axis=step&scale=log&smooth=0.9").text
    (place,) = {attrs["data-charts"] for _, attrs in _Tags(text).tags if "data-charts" in attrs}
    assert parse_qs(urlsplit(str(place)).query) == {"axis": ["step"], "scale": ["log"], "smooth": ["0.9"]}
    assert 'data-axis="step" data-scale="log"' in text
    assert '<option value="0.9" selected>' in text
    assert fetch(app, f"/job/{JOB}/metrics?axis=odd").status_code == 400
    found = fetch(app, f"/job/{JOB}/points?series=cpu&smooth=0.9").json()
    assert found["values"] == [{"label": "worker", "text": "2.5 cores"}]
    assert found["lines"][0]["unsmoothed"] == [1.5, 2.5]


def test_a_repeated_note_is_shown_once(tmp_path: Path) -> None:
    """Of tasks that were stopped for one failure the others refer to the first."""
    home = Home(tmp_path)
    folder = keep(home, JOB)
    report = _report(folder)
    note = "stopped (worker:9 ran out of memory (limit 64m): 1 process killed by the kernel)"
    tasks = tuple(replace(task, note=note, note_repeats_exit=False) for task in report.tasks)
    write_summary(folder, replace(report, tasks=tasks))
    text = fetch(_app(home), f"/job/{JOB}").text
    assert len(report.tasks) > 1
    assert text.count(note) == 1
    assert text.count(f">same as {report.tasks[0].task}<") == len(report.tasks) - 1


def test_the_card_of_a_failure_has_the_lines_for_the_job_file(tmp_path: Path) -> None:
    home = Home(tmp_path)
    folder = keep(home, JOB)
    _fail(folder)
    report = _report(folder)
    assert report.failure is not None
    found = replace(diagnose(FailureCause.MEMORY, None), patch=("[roles.worker]", 'memory = "3g"'))
    write_summary(folder, replace(report, failure=replace(report.failure, diagnosis=found)))
    page = fetch(_app(home), f"/job/{JOB}").text
    card = page.partition('id="failure"')[2].partition("</section>")[0]
    assert "[roles.worker]\nmemory = &#34;3g&#34;</pre>" in card


def test_a_warning_is_on_the_page_of_a_job_that_succeeded(tmp_path: Path) -> None:
    home = Home(tmp_path)
    folder = keep(home, JOB)
    report = replace(_report(folder), state=JobState.SUCCEEDED, failure=None, warnings=("its output ends <badly>",))
    write_summary(folder, report)
    assert '<p class="cause">its output ends &lt;badly&gt;</p>' in fetch(_app(home), f"/job/{JOB}").text


def test_a_job_stopped_by_its_owner_is_no_failure(tmp_path: Path) -> None:
    """The card with the reason has not the colour of failures."""
    home = Home(tmp_path)
    folder = keep(home, JOB)
    _fail(folder)
    report = _report(folder)
    assert report.failure is not None
    ended = replace(report.failure, failure_class=FailureClass.KILLED, cause=FailureCause.KILLED, reason="killed by me")
    write_summary(folder, replace(report, state=JobState.KILLED, failure=ended))
    assert 'class="panel failure killed"' in fetch(_app(home), f"/job/{JOB}").text


@pytest.mark.parametrize(
    ("cause", "facts", "host", "signal"),
    [
        (FailureCause.PROGRAM, ExitFacts(exit_message=""), False, False),
        (FailureCause.MEMORY, ExitFacts(exit_message="ran out of memory"), False, True),
        (FailureCause.LOST, ContainerFacts(container=ContainerLoss.STOPPED, end="preempted"), False, True),
        (FailureCause.SILENT, SilenceFacts(silence=60.0), True, True),
    ],
)
def test_host_and_signal_are_shown_once(
    tmp_path: Path, cause: FailureCause, facts: FailureFacts, host: bool, signal: bool
) -> None:
    """Below the sentence stands what it does not name."""
    home = Home(tmp_path)
    folder = keep(home, JOB)
    _fail(folder)
    report = _report(folder)
    assert report.failure is not None
    reason = describe_failure(cause, facts, TaskId("worker", 0), "node7", None, "SIGSEGV")
    failure = replace(report.failure, cause=cause, facts=facts, reason=reason, exit_code=None, signal="SIGSEGV")
    write_summary(folder, replace(report, failure=failure))
    text = fetch(_app(home), f"/job/{JOB}").text
    part = text[text.index('<p class="sub">') :].partition("</p>")[0]
    assert (" on <bdi>node7</bdi>" in part, " · SIGSEGV" in part) == (host, signal)


def test_a_failure_without_output_has_its_hint(tmp_path: Path) -> None:
    """A program that ran out of memory often printed nothing."""
    home = Home(tmp_path)
    folder = keep(home, JOB)
    _fail(folder)
    report = _report(folder)
    assert report.failure is not None
    failure = replace(report.failure, diagnosis=diagnose(FailureCause.MEMORY, None), tail=())
    write_summary(folder, replace(report, failure=failure))
    assert "request more memory" in fetch(_app(home), f"/job/{JOB}").text


def test_a_job_that_hangs_has_no_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor an end: the page says for how long it has been stalled."""
    home = Home(tmp_path)
    keep(home, JOB)
    hung = measure_job([Progress("worker:0", 1, 1, 0.0, 1.0, 8.0, 5.0, 40.0, stalled_after=30.0)], 79.0)
    monkeypatch.setattr(job_page, "find_job_progress", lambda reports, report: hung)
    text = fetch(_app(home), f"/job/{JOB}").text
    part = text[text.index('id="h-progress"') : text.index('id="h-timeline"')]
    assert re.search(r'<strong class="stalled">[^<]* 1 m 14 s</strong>', part)
    assert "steps/s" not in part
    assert " left" not in part


def test_only_the_stalled_task_is_marked_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path)
    keep(home, JOB)
    hung = [Progress(f"worker:{index}", 1, 1, 0.0, 1.0, 8.0, 5.0, 40.0, stalled_after=30.0) for index in (0, 1)]
    uses = {each.task: TaskUse(progress=measure_task(each, 79.0, stalled_task="worker:1")) for each in hung}
    monkeypatch.setattr(task_table, "find_task_use", lambda report, newest, reports: defaultdict(TaskUse, uses))
    text = fetch(_app(home), f"/job/{JOB}").text
    assert re.findall(r'<span class="stalled">stalled|>waiting 1 m 14 s', text) == [
        ">waiting 1 m 14 s",
        '<span class="stalled">stalled',
    ]


def test_a_comparison_shows_differences(app: ASGIApp) -> None:
    """Values of both runs side by side; equal ones are only counted."""
    text = fetch(app, f"/compare?job={JOB}&job={OTHER}").text
    assert re.search(r"env.EPOCHS</bdi></th><td>&#34;3&#34; <span[^>]*>[^<]*</span></td><td>&#34;4&#34; <span", text)
    assert "identical" in text
    assert OTHER in fetch(app, f"/compare?job={JOB}").text
    assert 404 == fetch(app, f"/compare?job={JOB}&job=local-20200101-000000-000000").status_code
    assert 400 == fetch(app, "/compare").status_code
    told = fetch(app, f"/api/v1/jobs/{JOB}/compare?with={OTHER}").json()
    assert [{"key": "env.EPOCHS", "a": ['"3"', "default"], "b": ['"4"', "default"]}] == told["settings"]
    assert (JOB, OTHER, []) == (told["a"]["report"]["job"], told["b"]["report"]["job"], told["a"]["report"]["tasks"])


def test_where_values_were_set(app: ASGIApp) -> None:
    """What was set, with its place; all others on request."""
    assert "job.toml:1" in fetch(app, f"/job/{JOB}/settings").text
    assert "max_restarts" in fetch(app, f"/job/{JOB}/settings?all=yes").text


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/job/local-20200101-000000-000000", 404, "permission to view"),
        ("/nothing", 404, "not found"),
        ("/?state=odd", 400, "not one of"),
        ("/?after=odd", 400, "not a page key"),
        (f"/job/{JOB}/events?after=x", 400, "whole number"),
        (f"/job/{JOB}/logs?stream=both", 400, "out or err"),
        (f"/job/{JOB}/logs?session=0", 400, "not a number from 1 on"),
        (f"/job/{JOB}/logs?before=x", 400, "not a position"),
        (f"/job/{JOB}/logs?since=once", 400, "not a time"),
        (f"/job/{JOB}/logs?after=start&since=1h", 400, "exclude each other"),
        (f"/job/{JOB}/logs?task=worker:99", 404, "has no task"),
        ("/?text=" + "x" * 501, 400, "more than 500 characters"),
    ],
)
def test_errors_have_a_page(app: ASGIApp, path: str, status: int, said: str) -> None:
    """A page that says what is wrong, in words, with a way out."""
    answer = fetch(app, path)
    assert status == answer.status_code
    assert said in answer.text
    assert "<h1>" in answer.text
    assert 'class="button"' in answer.text


def test_an_empty_state_directory_shows_how_to_begin(tmp_path: Path) -> None:
    """Having no jobs and having no matching jobs are different pages."""
    app = _app(Home(tmp_path))
    assert "tony run" in fetch(app, "/").text
    assert "No matching jobs" in fetch(app, "/?text=x").text
