"""TensorBoard through a real portal: one that a running job has, and one that a click starts on what a job has left."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.lab import CEILING, Lab, until
from tests.portal.tensorboard.test_tensorboard_manager import write_events

pytestmark = [pytest.mark.e2e]

#: Listens at its TB_PORT, and says what it was asked.
BOARD = """
import http.server, os

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = f"<h1>board of {self.path} {self.headers.get('Cookie')}</h1>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(said)))
        self.send_header("Set-Cookie", "tony=stolen")
        self.end_headers()
        self.wfile.write(said)

server = http.server.HTTPServer(("127.0.0.1", int(os.environ["TB_PORT"])), Handler)
print("up", flush=True)
server.serve_forever()
"""


@contextmanager
def portal_of(lab: Lab, *arguments: str) -> Iterator[str]:
    """`tony portal` over its home, or what the arguments say; gives the address."""
    process = lab.follow("portal", "--port", "0", *arguments)
    try:
        assert process.stdout is not None
        said = ""
        while not (found := re.search(r"http://\S+", said)):
            line = process.stdout.readline()
            assert line, "the portal ended"
            said += line
        yield found[0].rstrip("/.,")
    finally:
        process.terminate()
        process.communicate(timeout=CEILING)


def fetch(address: str) -> tuple[int, str, dict[str, str]]:
    request = urllib.request.Request(address, headers={"Cookie": "secret=1"})
    try:
        with urllib.request.urlopen(request, timeout=CEILING) as answer:
            return answer.status, answer.read().decode(), {k.lower(): v for k, v in answer.headers.items()}
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), {}


def test_of_a_running_job(lab: Lab) -> None:
    """What its task serves is relayed by the AM: without the credentials of the user, and read-only."""
    job = lab.detach(lab.job_file('command = "python3 -u board.py"\n', {"board.py": BOARD}))
    lab.wait_output(job, "main:0", "up")
    with portal_of(lab) as base:
        until(lambda: fetch(f"{base}/job/{job}")[0] == 200, "the job's page")
        page = fetch(f"{base}/tensorboard/{job}")[1]
        assert f'href="../tensorboard/{job}/live/"' in page
        status, text, headers = fetch(f"{base}/tensorboard/{job}/live/data/x?run=a%20b")
        assert (status, text) == (200, "<h1>board of /data/x?run=a%20b None</h1>")
        assert "set-cookie" not in headers
        assert "frame-ancestors 'self'" in headers["content-security-policy"]
        lab.tony("kill", job, "--now")
        until(lambda: fetch(f"{base}/tensorboard/{job}/live/")[0] == 404, "its end")


@pytest.mark.slow
def test_a_click_shows_scalars(lab: Lab) -> None:
    """The button on an ended job's page leads to charts, in a browser: nothing is refused by the page's own policy."""
    pytest.importorskip("playwright", reason="needs Playwright, which is not in this environment")
    pytest.importorskip("tensorboard", reason="needs TensorBoard, which is not in this environment")
    from tests.e2e.browsers import browsing, chromium

    if chromium() is None:
        pytest.skip("needs Chromium: scripts/system-packages")
    logs = lab.root / "logs"
    write_events(logs / "train")
    text = f'command = "true"\n[env]\nTB_LOG_DIR = "{logs}"\n'
    job = lab.detach(lab.job_file(text))
    lab.wait(job, "succeeded")
    with portal_of(lab) as base, browsing() as browser, browser.page(base) as page:
        until(lambda: fetch(f"{base}/job/{job}")[0] == 200, "the job's page")
        page.goto(f"/job/{job}")
        page.get_by_role("button", name="Start TensorBoard").click()
        page.wait_for_url(f"**/tensorboard/{job}/board/**")
        page.locator("scalar-card, tb-scalar-card, card-view").first.wait_for()
        page.get_by_text("loss").first.wait_for()
        assert {base.partition("://")[2]} == browser.hosts()
        assert [] == [said for said in browser.complaints if "Security Policy" in said]
