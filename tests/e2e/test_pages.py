"""The pages of real jobs, in a real browser: a failure is explained, pictures are drawn, permitted users are let in."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.lab import Lab, until
from tests.web.home_source import HomeSource
from tests.web.sample_jobs import keep
from tests.web.serving import served
from tony.model.state_directory import Home
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator

pytest.importorskip("playwright", reason="needs Playwright, which is not in this environment")

from playwright.sync_api import Page, expect

from tests.e2e.browsers import NARROW, TIMEOUT_SECONDS, WIDE, Browsing, Scheme, barriers, browsing, chromium

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: One task fails in both sessions, in the second for a reason that a restart cannot mend; the others would continue.
FAILS = """
name = "reads <b>digits</b>"
tags = ["nightly"]
max_restarts = 1
backoff = "1ms"
metrics_interval = "1s"

[env]
API_TOKEN = "never-to-be-seen"
EPOCHS = "3"

[roles.worker]
instances = 3
command = "python3 -u fails.py"
"""
FAILS_PY = """
import os, sys, time

print("reading the data")
if os.environ["TASK_INDEX"] == "1":
    if os.environ["SESSION_ID"] == "1":
        sys.exit(3)
    print("Traceback (most recent call last):", file=sys.stderr)
    print("\\x1b[31mFileNotFoundError\\x1b[0m: no such file: '/data/digits.csv'", file=sys.stderr)
    sys.exit(3)
time.sleep(600)
"""
#: Trains until it is asked to end, and tells how far it is.
TRAINS = """
name = "trains"
metrics_interval = "1s"

[roles.worker]
instances = 2
command = "python3 -u trains.py"
"""
TRAINS_PY = """
import os, time
import tony

for step in range(1, 100_000):
    print(f"step {step} \\x1b[32mgood\\x1b[0m")
    tony.progress(step, total=100_000, loss=1 / step)
    time.sleep(0.05)
    if os.path.exists(os.environ["ENOUGH"]):
        break
"""
#: Stands where it can be told from elsewhere.
WAITS_PY = """
import time

def waits_for_ever():
    while True:
        time.sleep(0.1)

print("waiting")
waits_for_ever()
"""


SPEAKS_PY = """
import os, time

os.write(1, b"listening\\n")
while not os.path.exists(os.environ["SPEAK"]):
    time.sleep(0.05)
os.write(1, b"spoken\\n")
time.sleep(600)
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """A portal with a job that failed and one that runs."""

    lab: Lab
    base: str
    failed: str
    runs: str
    browsing: Browsing


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """One home, one portal and one browser for all: each of them takes its time."""
    if chromium() is None:
        pytest.skip("needs Chromium: scripts/system-packages")
    folder = Path(tempfile.mkdtemp(prefix="tony-e2e-"))
    lab = Lab(folder)
    try:
        failed = lab.detach(lab.job_file(FAILS, {"fails.py": FAILS_PY}))
        (folder / "second").mkdir()
        trains = lab.job_file(TRAINS, {"trains.py": TRAINS_PY})
        runs = lab.detach(trains, "--set", f"env.ENOUGH={folder / 'enough'}")
        portal = lab.follow("portal", "--port", "0")
        assert portal.stdout is not None
        found = re.search(r"http://\S+/", portal.stdout.readline())
        assert found is not None
        lab.wait(failed, "failed")
        lab.wait(runs, "running")
        with browsing() as browser:
            yield Stage(lab, found[0], failed, runs, browser)
    finally:
        (folder / "enough").touch()
        lab.close()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_failure_is_found_and_understood_in_three_clicks(stage: Stage) -> None:
    """From the first page: what failed, why, on which line, and all that it printed."""
    with stage.browsing.page(stage.base) as page:
        page.goto("/")
        row = page.get_by_role("row", name="reads <b>digits</b>")
        expect(row).to_contain_text("FileNotFoundError: no such file: '/data/digits.csv'")
        page.get_by_role("link", name="reads <b>digits</b>").click()
        failure = page.get_by_role("region", name="Root cause")
        expect(failure).to_contain_text("worker:1: exit code 3")
        expect(failure).to_contain_text("FileNotFoundError: no such file: '/data/digits.csv'")
        failure.get_by_role("link", name="Full log").click()
        expect(page.get_by_label("Task")).to_have_value("worker:1")
        log = page.locator("#log pre")
        expect(log).to_contain_text("Traceback (most recent call last):")
        assert log.locator("span.f1").inner_text() == "FileNotFoundError"


def test_a_search_is_part_of_the_url(stage: Stage) -> None:
    """The URL contains the search, so a link shows the same jobs, and it works without any script."""
    with stage.browsing.page(stage.base, script=False) as page:
        page.goto("/")
        page.get_by_label("Search").fill("digits.tsv nightly")
        page.get_by_label("State").select_option("failed")
        page.get_by_role("button", name="Apply").click()
        expect(page).to_have_url(re.compile("state=failed"))
        expect(page.get_by_role("heading", name="No matching jobs")).to_be_visible()
        page.get_by_label("Search").fill("nightly")
        page.get_by_role("button", name="Apply").click()
        expect(page.get_by_role("table").get_by_role("row")).to_have_count(2)
        page.get_by_role("link", name="Duration").click()
        expect(page).to_have_url(re.compile("sort=duration"))
        expect(page).to_have_url(re.compile("text=nightly"))


def test_the_timeline_is_drawn(stage: Stage) -> None:
    """A bar for each thing that a task did, a cross where one failed, both sessions; and the same in words."""
    with stage.browsing.page(stage.base) as page:
        page.goto(f"/job/{stage.failed}")
        picture = page.get_by_role("img", name=re.compile("^Timeline"))
        expect(picture).to_be_visible()
        assert picture.locator("rect.t-running").count() >= 3
        assert picture.locator("line.t-died").count() == 2
        assert picture.locator("text.session").count() == 2
        bar = picture.locator("rect.t-running").first.bounding_box()
        assert bar is not None
        assert bar["width"] > 1
        page.get_by_text("Text version").click()
        expect(page.get_by_role("table", name="Sessions").get_by_role("row")).to_have_count(3)
        expect(page.get_by_role("table", name="Markers")).to_contain_text("worker:1: exit code 3")


def test_charts_are_drawn(stage: Stage) -> None:
    """What was measured becomes charts with ink on them, and tables that say the same."""
    until(
        lambda: (
            "user.loss" in stage.lab.tony("metrics", stage.runs, "--csv").stdout
            or (stage.lab.home / "jobs" / stage.runs / "metrics.db").exists()
        ),
        "something was measured",
    )
    with stage.browsing.page(stage.base) as page:
        page.goto(f"/job/{stage.runs}/metrics")
        _reload_until(page, "figure.chart[data-series='user.loss']")
        for series in ("cpu", "rss", "user.loss"):
            figure = page.locator(f"figure[data-series='{series}'][data-drawn]")
            figure.scroll_into_view_if_needed()
            expect(figure).to_be_visible()
            canvas = figure.get_by_role("img")
            expect(canvas).to_have_attribute("aria-label", re.compile(r"worker"))
            ink = canvas.evaluate(
                "it => it.getContext('2d').getImageData(0, 0, it.width, it.height).data.some(each => each)"
            )
            assert ink
        figure.get_by_text("Table").click()
        expect(figure.get_by_role("table").get_by_role("columnheader", name="worker")).to_be_visible()


def test_logs_are_followed(stage: Stage) -> None:
    """New lines come by themselves, with their times in front and in their colours."""
    with stage.browsing.page(stage.base) as page:
        page.goto(f"/job/{stage.runs}/logs")
        last = _last_step(page.locator("#log").inner_text())
        page.wait_for_function(
            "last => +[...document.querySelector('#log pre').innerText.matchAll(/step (\\d+)/g)].at(-1)[1] > last + 20",
            arg=last,
        )
        line = page.locator("#log .line").last
        assert re.match(r"\d\d:\d\d:\d\d\.\d\d worker:\d step \d+ good", line.inner_text())
        assert line.locator("span.f2").count() == 1


def test_an_open_page_asks_for_nothing_while_nothing_happens(stage: Stage) -> None:
    """Its request is held until there is a new line, and not at all while the page is hidden."""
    speak = stage.lab.root / "speak"
    file = stage.lab.job_file('name = "speaks"\ncommand = "python3 -u speaks.py"\n', {"speaks.py": SPEAKS_PY})
    job = stage.lab.detach(file, "--set", f"env.SPEAK={speak}")
    stage.lab.wait(job, "running")
    stage.lab.wait_output(job, "main:0", "listening")
    with stage.browsing.page(stage.base) as page:
        held: list[str] = []
        page.on("request", lambda request: held.append(request.url) if "known=" in request.url else None)
        with page.expect_request(lambda request: "known=" in request.url):
            page.goto(f"/job/{job}/logs")
        start = _count_steps(stage)
        until(lambda: _count_steps(stage) > start + 60, "another job has printed for a while")
        page.evaluate("0")
        assert len(held) == 1
        speak.touch()
        with page.expect_request(lambda request: "known=" in request.url):
            expect(page.locator("#log pre")).to_contain_text("spoken")
        with page.expect_event("requestfailed"):
            page.evaluate("""Object.defineProperty(document, "hidden", { get: () => true });
                document.dispatchEvent(new Event("visibilitychange"));""")
        assert len(held) == 2
    stage.lab.tony("kill", job)


def _count_steps(stage: Stage) -> int:
    log = stage.lab.home / "jobs" / stage.runs / "logs" / "worker-0.s1.t1.out"
    return log.read_text().count("step")


def _last_step(text: str) -> int:
    return int(re.findall(r"step (\d+) good", text)[-1])


def test_logs_are_filtered_without_script(stage: Stage) -> None:
    """By task, stream, session and text, all in the address; a line that was found leads to those around it."""
    with stage.browsing.page(stage.base, script=False) as page:
        page.goto(f"/job/{stage.failed}")
        page.get_by_role("link", name="Logs", exact=True).click()
        page.get_by_label("Task").select_option("worker:1")
        page.get_by_label("Stream").select_option("err")
        page.get_by_label("Session").select_option("2")
        page.get_by_label("Text").fill("filenotfound")
        page.get_by_role("button", name="Apply").click()
        for each in ("task=worker%3A1", "stream=err", "session=2", "text=filenotfound"):
            expect(page).to_have_url(re.compile(each))
        expect(page.locator("#log .line")).to_have_count(1)
        page.locator("#log .line a").click()
        expect(page.locator("#hit")).to_contain_text("FileNotFoundError")
        expect(page.locator("#log")).to_contain_text("Traceback (most recent call last):")


def test_a_job_is_controlled_and_its_page_follows(stage: Stage) -> None:
    """Stacks are shown, the session starts again, the job ends; the page of a job renews itself; events say who did."""
    job = stage.lab.detach(
        stage.lab.job_file('name = "waits"\ncommand = "python3 -u waits.py"\n', {"waits.py": WAITS_PY})
    )
    stage.lab.wait_output(job, "main:0", "waiting")
    with stage.browsing.page(stage.base) as page:
        page.goto(f"/job/{job}/task/main:0")
        page.get_by_role("button", name="Capture").click()
        expect(page.locator("[data-control] pre.log")).to_contain_text("waits_for_ever", timeout=TIMEOUT_SECONDS)
        page.goto(f"/job/{job}")
        expect(page.locator("h1 .badge")).to_have_text("running")
        page.get_by_role("button", name="Restart session").click()
        asked = page.get_by_role("dialog", name="Restart this session?")
        asked.get_by_role("button", name="Restart session").click()
        expect(page.locator("dl.facts")).to_contain_text("1 that did not count", timeout=TIMEOUT_SECONDS)
        page.get_by_role("button", name="Stop job").click()
        asked = page.get_by_role("dialog", name="Stop this job?")
        asked.get_by_role("button", name="Cancel").click()
        expect(asked).to_be_hidden()
        page.get_by_role("button", name="Stop job").click()
        asked.get_by_role("button", name="Stop job").click()
        expect(page.locator("h1 .badge")).to_have_text("killed", timeout=TIMEOUT_SECONDS)
        page.goto(f"/job/{job}/events")
        for what in ("stacks", "restart", "kill"):
            expect(page.get_by_role("table")).to_contain_text(re.compile(rf"(requested|asked for) .*{what}"))


def test_times_are_in_the_zone_of_the_browser(stage: Stage) -> None:
    """The exact time is shown on hover, and the page names its zone."""
    with stage.browsing.page(stage.base, zone="Asia/Kathmandu") as page:
        page.goto(f"/job/{stage.failed}")
        expect(page.locator("#zone")).to_have_text(re.compile("Asia/Kat[hm]"))
        time = page.locator("dl.facts time").first
        exact = time.get_attribute("datetime")
        assert exact is not None
        assert exact in (time.get_attribute("title") or "")
        hours = page.evaluate("then => { const at = new Date(then); return at.getUTCMinutes(); }", exact)
        shown = re.search(r"(\d\d):(\d\d)", time.inner_text())
        assert shown is not None
        assert int(shown[2]) == (hours + 45) % 60


def test_the_keyboard_reaches_everything(stage: Stage) -> None:
    """The first key leads past the head of the page, and what has the focus shows it."""
    with stage.browsing.page(stage.base) as page:
        page.goto(f"/job/{stage.failed}")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        inside = page.evaluate("document.querySelector('main').contains(document.activeElement)")
        assert inside
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_keys_search_move_and_explain_themselves(stage: Stage) -> None:
    """Not in a field where they are letters."""
    with stage.browsing.page(stage.base) as page:
        page.goto("/")
        page.keyboard.press("j")
        first = page.locator("table a.name").first
        expect(first).to_be_focused()
        page.keyboard.press("j")
        expect(page.locator("table a.name").nth(1)).to_be_focused()
        page.keyboard.press("k")
        expect(first).to_be_focused()
        page.keyboard.press("?")
        keys = page.get_by_role("dialog", name="Keyboard")
        expect(keys).to_be_visible()
        page.keyboard.press("Escape")
        expect(keys).to_be_hidden()
        page.keyboard.press("/")
        page.keyboard.type("j?/k")
        expect(page.get_by_label("Search")).to_have_value("j?/k")
        expect(keys).to_be_hidden()


def test_chosen_jobs_are_compared_in_one_chart(stage: Stage) -> None:
    """Check boxes in the list lead to curves of both jobs; the choice of the axis stays with them."""
    with stage.browsing.page(stage.base) as page:
        page.goto("/")
        for job in (stage.failed, stage.runs):
            page.get_by_label(f"Compare {job}").check()
        page.get_by_role("button", name="Compare chosen jobs").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Compare 2 jobs")
        _reload_until(page, "figure[data-series='user.loss'][data-drawn]")
        page.get_by_label("Over").select_option("step")
        page.wait_for_url("**axis=step**")
        loss = page.locator("figure[data-series='user.loss'][data-drawn]")
        expect(loss.get_by_role("img")).to_have_attribute("aria-label", re.compile("trains"))
        assert stage.runs in page.url


#: Each kind of page, of a job that failed and of one that runs.
PATHS = (
    "/",
    "/?text=nothing+of+that+kind",
    "/job/{failed}",
    "/job/{failed}/tasks",
    "/job/{failed}/task/worker:1",
    "/job/{failed}/logs",
    "/job/{failed}/events",
    "/job/{failed}/advice",
    "/job/{failed}/settings",
    "/job/{failed}/files",
    "/compare?job={failed}&job={runs}",
    "/job/{runs}",
    "/job/{runs}/metrics",
    "/job/{runs}/metrics?axis=step&scale=log&smooth=0.9",
    "/job/{runs}/task/worker:0",
    "/job/local-20000101-000000-000000",
    "/job/{failed}/timeline",
    "/job/{failed}/tasks?text=unknown",
    "/job/{failed}/logs?task=worker:0&stream=err",
    "/job/{failed}/metrics",
    "/compare?job={failed}",
    "/waste",
    "/waste?user=unknown",
    "/tensorboard/{failed}",
    "/tensorboard/{runs}",
    "/?state=odd",
)
#: Words that stand in so little room that hardly a letter of them fits on a line.
SQUEEZED = """[...document.querySelectorAll("main :is(tbody th, td, dd, p, li)")]
    .filter(each => each.checkVisibility() && each.textContent.trim().length > 8 && !each.closest(".unseen"))
    .filter(each => { const box = each.getBoundingClientRect(); return box.width < 40 && box.height > 5 * box.width; })
    .map(each => `${each.tagName} is squeezed: ${each.textContent.trim().slice(0, 60)}`)"""
#: A forwarded address makes the client remote, and the portal asks it for a token.
OTHER_CLIENT = {"X-Forwarded-For": "192.0.2.1"}
SCHEMES: tuple[Scheme, ...] = ("light", "dark")


@pytest.mark.on_change("web", "portal")
def test_pages_are_accessible(stage: Stage) -> None:
    """axe finds no barrier on any page, at either width, in light and in dark; no page scrolls sideways."""
    found: list[str] = []
    with stage.browsing.page(stage.base) as page:
        for path in PATHS:
            found += _barriers_on(page, path.format(failed=stage.failed, runs=stage.runs), twice=path in PATHS[:3])
        page.set_extra_http_headers(OTHER_CLIENT)
        found += _barriers_on(page, "/")
        expect(page.get_by_role("heading", name="Please log in")).to_be_visible()
        expect(page.get_by_label("Token")).to_be_editable()
    assert not found, "\n".join(found)


def _barriers_on(page: Page, path: str, *, twice: bool = False) -> list[str]:
    """At both widths, and in both schemes; unless `twice`, at each width in one of them: colours are the same there."""
    found: list[str] = []
    page.set_viewport_size({"width": WIDE, "height": 900})
    page.goto(path)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    for width in (WIDE, NARROW):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in SCHEMES:
            if (width == WIDE) is not (scheme == "light") and not twice:
                continue
            page.emulate_media(color_scheme=scheme)
            page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            found += [f"{width} {scheme} {barrier}" for barrier in barriers(page)]
        if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
            found.append(f"{path} is {wide} wide, not {width}")
        found += [f"{width} {path}: {each}" for each in page.evaluate(SQUEEZED)]
    return found


def test_long_words_make_no_page_wider(stage: Stage, tmp_path: Path) -> None:
    """Names, users and values without a space are broken where the page ends, at either width."""
    home = Home(tmp_path)
    job = keep(home, user="u" * 60, name="N" * 200, env={"V" * 100: "v" * 500}).job_id
    wide: list[str] = []
    app = create(ServerContext(HomeSource(home, "ann"), Authenticator(AuthConfig(key=b"k" * 32, owner="ann"))))
    with served(app) as port, stage.browsing.page(f"http://127.0.0.1:{port}/", watched=False) as page:
        for path in (
            "/",
            f"/job/{job}",
            f"/job/{job}/task/worker:0",
            f"/job/{job}/settings",
            f"/compare?job={job}",
        ):
            page.goto(path)
            for width in (WIDE, NARROW):
                page.set_viewport_size({"width": width, "height": 900})
                if (found := page.evaluate("document.documentElement.scrollWidth")) > width:
                    wide.append(f"{path} is {found} wide, not {width}")
    assert not wide, "\n".join(wide)


def test_pages_load_only_from_their_server_and_obey_their_policy(stage: Stage) -> None:
    """All that those pages loaded came from their server, and no page broke a rule of its own policy."""
    with stage.browsing.page(stage.base) as page:
        page.goto("/")
    (host,) = stage.browsing.hosts()
    assert stage.base == f"http://{host}/"
    answered = re.compile("the server responded with a status of 40[014]")  # to those who asked for what is not there
    assert [said for said in stage.browsing.complaints if not answered.search(said)] == []


def _reload_until(page: Page, wanted: str) -> None:
    """Until the first sample is written it is a matter of seconds."""

    def there() -> bool:
        page.reload()
        page.wait_for_load_state("networkidle")
        return page.locator(wanted).count() > 0

    until(there, f"{wanted} is on {page.url}")
