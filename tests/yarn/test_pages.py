"""The pages of a running job through the ResourceManager's own proxy, with all that this one drops and follows."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import signal
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.change_detection import CLUSTER
from tests.e2e.lab import CEILING, command_of, until
from tests.yarn.lab import YarnLab, user
from tests.yarn.test_jobs import _get, _own_page
from tony.core.events import REQUESTS
from tony.linux.process import is_alive

pytest.importorskip("playwright", reason="needs Playwright, which is not in this environment")

from playwright.sync_api import Page, expect

from tests.e2e.browsers import Browsing, browsing, chromium

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: Says a line each time that a file appears, and how far it is.
TALKS = """
import os, time
import tony

out, me = os.environ["OUT"], os.environ["TASK_INDEX"]
print("line 0 <here>", flush=True)
open(f"{out}/up{me}", "w").write("up")
number, step = 1, 0

def talks_for_ever():
    global number, step
    while True:
        if os.path.exists(f"{out}/say{number}"):
            print("line", number, flush=True)
            number += 1
        step += 1
        tony.progress(step, total=1_000_000, loss=1 / step)
        time.sleep(0.05)

talks_for_ever()
"""
TWO = "[roles.worker]\ninstances = 2\n"
HEAD = 'name = "talks"\nmetrics_interval = "500ms"\neditors = ["mo"]'
PORTAL = "http://portal.example.org/tony"


def begin(lab: YarnLab, *arguments: str) -> tuple[str, str]:
    """A job that talks, and the address of its page as YARN links to it."""
    job = lab.detach(lab.roles(TALKS, TWO, HEAD), *arguments)
    lab.wait_wrote("up0"), lab.wait_wrote("up1")
    lab.wait(job, "running")
    address = lab.application(job)["trackingUrl"]
    assert urlsplit(address).path == f"/proxy/{job}/"
    return job, address


def test_a_browser_shows_and_changes_a_job_through_the_proxy(lab: YarnLab) -> None:
    """All of it works below the proxy's address; a permitted user changes the job there; afterwards the portal has
    it."""
    if chromium() is None:
        pytest.skip("needs Chromium: scripts/system-packages")
    job, address = begin(lab, "--set", f"scheduler.yarn.portal={PORTAL}/")
    _strangers_change_nothing(lab, job)
    with browsing() as browser:
        with browser.page(address) as page:
            _sees_the_job(page, address)
            _follows_a_log(lab, page, browser)
            _sees_charts(page, address)
        with browser.page(address) as page:
            _only_looks(page, job)
        with browser.page(address) as page:
            _changes_it(lab, page, job, address)
            page.goto("about:blank")  # when the job has ended, the proxy leads elsewhere
        assert [asked for asked in browser.asked if not asked.startswith(address)] == []
        assert browser.complaints == []
    lab.wait(job, "killed")
    kinds = [kind.kind for kind in REQUESTS]
    asked = [(line["event"], line["data"]["actor"]["name"]) for line in lab.events(job) if line["event"] in kinds]
    what = ["stacks-requested", "log-level-requested", "restart-requested", "kill-requested"]
    assert asked == [(each, user()) for each in what]
    lab.wait_application(job)
    lab.wait_removed(job)
    # What YARN links to is still the proxy, which now leads to the portal.
    ended = lab.application(job)
    assert (ended["trackingUI"], ended["trackingUrl"]) == ("History", address)
    after = until(lambda: _get(lab.page("rm"), f"/proxy/{job}/").headers.get("Location"), "YARN leads elsewhere")
    assert after.startswith(f"{PORTAL}/job/{job}"), after
    log = _get(lab.page("rm"), f"/proxy/{job}/logs?task=worker:0").headers["Location"]
    assert log == f"{PORTAL}/job/{job}/logs?task=worker:0"


def _sees_the_job(page: Page, address: str) -> None:
    """The job, its picture, all its other pages by their links."""
    page.goto("./")
    assert page.url == address
    expect(page.get_by_role("heading", level=1)).to_contain_text("talks")
    picture = page.get_by_role("img", name=re.compile("^Timeline"))
    expect(picture).to_be_visible()
    assert picture.locator("rect.t-running").count() == 2
    expect(page.locator("#tasks").get_by_role("row")).to_have_count(3)
    expect(page.locator("section.progress")).to_contain_text("of 1 000 000")
    for part in ("Tasks", "Metrics", "Events", "Advice", "Configuration", "Files"):
        page.get_by_role("link", name=part, exact=True).first.click()
        link = page.locator("nav.parts a[aria-current=page]")
        expect(link).to_have_text(part)
        expect(page.get_by_role("heading", level=1)).to_contain_text("talks")
    page.get_by_role("link", name="Overview").click()
    assert page.url == address


def _follows_a_log(lab: YarnLab, page: Page, browser: Browsing) -> None:
    """The proxy lets nothing flow, but waits for the answer to a request."""
    page.locator("#tasks").get_by_role("link", name="worker:0", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("worker:0")
    page.get_by_role("link", name="Follow log").first.click()
    log = page.locator("#log")
    expect(log).to_contain_text("line 0 <here>")
    for number in (1, 2):
        (lab.out / f"say{number}").write_text("now")
        expect(log).to_contain_text(f"line {number}")
    paths = [urlsplit(asked).path.rpartition("/")[2] for asked in browser.asked]
    assert (paths.count("logs") > 1, paths.count("follow")) == (True, 0)
    page.get_by_label("Text").fill("line 1")
    page.get_by_role("button", name="Apply").click()
    expect(log).to_contain_text("line 1")
    expect(log).not_to_contain_text("line 2")


def _sees_charts(page: Page, address: str) -> None:
    def there() -> bool:
        page.goto(f"{address}metrics")
        page.wait_for_load_state("networkidle")
        return page.locator("figure[data-series='user.loss']").count() > 0

    until(there, "it is measured how far it is")
    figure = page.locator("figure[data-series='user.loss']")
    figure.scroll_into_view_if_needed()
    canvas = figure.get_by_role("img")
    expect(canvas).to_be_visible()
    assert canvas.evaluate("it => it.getContext('2d').getImageData(0, 0, it.width, it.height).data.some(each => each)")


def _only_looks(page: Page, job: str) -> None:
    """A user who may not change the job is told who may, and how."""
    page.goto("./?user.name=vic")
    control = page.get_by_role("region", name="Control")
    expect(control).to_contain_text("vic")
    expect(control).to_contain_text(f"by {user()}, mo")
    expect(control.locator("code")).to_have_text(f"tony kill {job}")
    expect(page.get_by_role("main").get_by_role("button")).to_have_count(0)


def _strangers_change_nothing(lab: YarnLab, job: str) -> None:
    """Who it is says the proxy alone; a change needs the page's token and its origin."""
    rm, proxy = lab.page("rm"), f"/proxy/{job}/api/v1"
    vic = json.loads(_get(rm, f"{proxy}/me?user.name=vic", {"Cookie": f"proxy-user={user()}"}).body)
    owner = json.loads(_get(rm, f"{proxy}/me").body)
    assert (vic["user"], owner["user"]) == ("vic", user())
    stop = f"{proxy}/jobs/{job}/stop"
    own, other = f"http://{rm}", "http://other.example.org"
    told = [
        _put(rm, f"{stop}?user.name=vic", vic["page_token"], own),
        _put(rm, f"{stop}?user.name=vic", owner["page_token"], own),
        _put(rm, stop, vic["page_token"], own),
        _put(rm, stop, "", own),
        _put(rm, stop, owner["page_token"], other),
    ]
    assert told == [(403, "not-allowed"), *[(403, "not-own")] * 4]
    # Past the proxy no client is let in, whatever headers it sends.
    direct = asyncio.run(_own_page(lab, job))
    past = _get(direct, "/api/v1/me", {"Cookie": f"proxy-user={user()}"}, source="127.0.9.9")
    assert (past.status, job in past.headers["Location"], "page_token" in past.body) == (302, True, False)
    assert lab.status(job)["state"] == "running"


def _changes_it(lab: YarnLab, page: Page, job: str, address: str) -> None:
    """Stacks, log level, the session anew, and the end."""
    page.goto(f"{address}task/worker:0")
    page.get_by_role("button", name="Capture").click()
    expect(page.locator("[data-control] pre.log")).to_contain_text("talks_for_ever")
    page.goto(address)
    control = page.get_by_role("region", name="Control")
    said = control.get_by_role("status")
    control.get_by_label("Log level").select_option("debug")
    expect(said).to_have_text("Done.")
    control.get_by_role("button", name="Restart session").click()
    page.get_by_role("dialog").get_by_role("button", name="Restart session").click()
    expect(page.locator("dl.facts")).to_contain_text("1 that did not count")
    lab.wait(job, "running")
    control.get_by_role("button", name="Stop job").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop job").click()
    expect(said).to_have_text("Done.")


@pytest.mark.on_change(*CLUSTER, "am", "web")
def test_pages_survive_their_process_and_the_am(lab: YarnLab) -> None:
    """A page process that dies is followed by another, an AM by one whose pages know what was before."""
    if chromium() is None:
        pytest.skip("needs Chromium: scripts/system-packages")
    job, address = begin(lab)
    rm, proxy = lab.page("rm"), urlsplit(address).path
    assert "Timeline" in _get(rm, proxy).body
    first = _server(lab, job)
    os.kill(first, signal.SIGKILL)
    until(lambda: "Timeline" in _get(rm, proxy).body, "all pages again")
    second = _server(lab, job)
    assert second != first
    early = until(lambda: _measured(rm, proxy), "something is measured")
    (lab.out / "say1").write_text("now")
    until(lambda: "line 1" in _get(rm, f"{proxy}logs?task=worker:0").body, "what it said")
    at_first = _first_events(rm, proxy, job)
    with browsing() as browser, browser.page(address) as page:
        page.goto("./")
        expect(page.locator("h1 .badge")).to_have_text("running")
        os.kill(lab.master_of(job), signal.SIGKILL)
        until(lambda: not is_alive(second), "what served its pages has ended, too")
        # An open page updates itself.
        expect(page.locator("dl.facts")).to_contain_text("AM attempts")
        expect(page.locator("#old")).to_be_hidden()
        expect(page.locator("#tasks .badge").first).to_have_text("running")
        picture = page.get_by_role("img", name=re.compile("^Timeline"))
        assert picture.locator("rect.t-running").count() >= 2
        assert _first_events(rm, proxy, job) == at_first
        assert until(lambda: _measured(rm, proxy), "what was measured before") == early
        (lab.out / "say2").write_text("now")
        page.goto(f"{address}logs?task=worker:0")
        for line in ("line 0 <here>", "line 1", "line 2"):
            expect(page.locator("#log")).to_contain_text(line)
        assert _server(lab, job) != second
        assert lab.tony("kill", job).returncode == 0
        # And when the job has ended YARN has it.
        expect(page).to_have_url(re.compile(f"/cluster/app/{job}|/proxy/{job}/"))
        lab.wait(job, "killed")


def _first_events(rm: str, proxy: str, job: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(_get(rm, f"{proxy}api/v1/jobs/{job}/events?most=3").body)["events"]
    return found


def _measured(rm: str, proxy: str) -> float | None:
    """When the first value of a series was measured; None if there is none yet."""
    found = json.loads(_get(rm, f"{proxy}points?series=user.loss").body)["lines"]
    return float(found[0]["at"][0]) if found else None


def _server(lab: YarnLab, job: str) -> int:
    (pid,) = [pid for pid in lab.processes(job) if b"tony.web.am_server" in command_of(pid)]
    return pid


def _put(host: str, path: str, token: str, origin: str) -> tuple[int, str]:
    """What a browser is answered that asks for a change."""
    connection = http.client.HTTPConnection(host, timeout=CEILING)
    try:
        headers = {"Origin": origin, "Content-Type": "application/json"}
        connection.request("PUT", path, json.dumps({"token": token}), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())["error"]["code"]
    finally:
        connection.close()
