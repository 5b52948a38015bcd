"""Takes the pictures of the README anew (`make pictures`): runs a few small jobs, shows them in a portal, and has
Chromium draw its pages. Names of this machine do not get into them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
TONY = ROOT / ".venv" / "bin" / "tony"
TIMEOUT_SECONDS = 300.0  # seconds for anything to happen on a slow machine
WIDTH, MARGIN = 1280, 14
LARGEST = 250_000  # bytes of a picture
#: Of the job that is shown: it is half done, and has begun again.
SHOWN_FROM = 0.62
#: It has begun again, and its page, which follows it, tells how far it is since.
HALF_DONE = """from => document.querySelector("#timeline")?.innerText.includes("session 2")
    && (document.querySelector("progress")?.value ?? 0) >= from"""

#: Writes other words for some in all that is shown, and stops what moves.
DRAW = """(words) => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode())
    for (const [pattern, word] of words)
      node.nodeValue = node.nodeValue.replace(new RegExp(pattern, "g"), word);
  for (const each of document.querySelectorAll("title")) each.textContent = "";
}"""

#: All charts at the top of the page have their lines.
DRAWN = "[...document.querySelectorAll('#charts figure')].every(each => each.dataset.drawn)"

JOB = """
name = "{name}"
tags = {tags}
source = "."
framework = "tensorflow"
command = "python train.py {words}"
max_restarts = {restarts}
backoff = "1s"
metrics_interval = "250ms"
[roles.chief]
instances = 1
memory = "256m"
[roles.worker]
instances = {workers}
memory = "256m"
"""


class Desk:
    """A user of this machine with an empty home, who has neutral names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = folder / "source"
        (folder / "user").mkdir()
        self.source.mkdir()
        shutil.copy(Path(__file__).with_name("train.py"), self.source)
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TONY_")},
            "HOME": str(folder / "user"),
            "TONY_HOME": str(folder / "home"),
            "TONY_SET_SCHEDULER__LOCAL__LEDGER": str(folder / "ledger"),
            "LOGNAME": "ann",
            "PATH": f"{TONY.parent}{os.pathsep}{os.environ['PATH']}",
        }

    def tony(self, *words: str, user: str = "ann") -> str:
        """What a command prints."""
        env = {**self.env, "LOGNAME": user}
        done = subprocess.run([TONY, *words], env=env, cwd=self.source, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout

    def submit(
        self,
        name: str,
        words: str,
        *,
        user: str = "ann",
        tags: tuple[str, ...] = (),
        workers: int = 1,
        restarts: int = 0,
    ) -> str:
        """A job, which is not waited for."""
        text = JOB.format(name=name, words=words, tags=json.dumps(tags), workers=workers, restarts=restarts)
        file = self.source / "job.toml"
        file.write_text(text)
        return self.tony("submit", str(file), "--detach", user=user).strip()

    def report(self, job: str) -> dict[str, Any]:
        """Return the status of a job."""
        found: dict[str, Any] = json.loads(self.tony("status", job, "--json"))
        return found

    def wait(self, job: str) -> None:
        """Until it has ended."""
        until(lambda: self.report(job)["ended"], f"the end of {job}")

    @contextmanager
    def portal(self) -> Iterator[str]:
        """Serves their jobs; gives its address."""
        with subprocess.Popen([TONY, "portal"], env=self.env, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                found = re.search(r"http://\S+", process.stdout.readline())
                assert found, "the portal does not say where it is"
                yield found[0]
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(TIMEOUT_SECONDS)


def until(condition: Callable[[], Any], what: str) -> Any:
    """Waits for something; answers it."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise SystemExit(f"waited for {what} in vain")
        time.sleep(0.2)
    return found


def take(page: Page, desk: Desk, name: str, last: str) -> None:
    """Keeps what a page shows, down to the end of something, without names of this machine."""
    host = re.escape(socket.gethostname())
    words = [
        (re.escape(str(desk.folder)), "/home/ann"),
        (rf"\b{host}\b", "desk"),
        (rf"\b{re.escape(socket.getfqdn())}\b", "desk"),
    ]
    page.evaluate(DRAW, words)
    box = page.locator(last).last.bounding_box()
    assert box is not None
    height = box["y"] + box["height"] + MARGIN
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path, clip={"x": 0, "y": 0, "width": WIDTH, "height": height}, full_page=True)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size:,} bytes")
    if size > LARGEST:
        raise SystemExit(f"{path} is larger than {LARGEST:,} bytes")


def jobs_of(desk: Desk) -> str:
    """Runs what is to be seen; answers the job whose page is shown, which still runs."""
    keep = desk.folder / "user"
    desk.wait(desk.submit("letters", f"steps=60 keep={keep}/a", tags=("nightly",)))
    desk.wait(desk.submit("letters", f"steps=90 keep={keep}/b", tags=("nightly",)))
    swept = desk.submit("sweep", f"steps=9000 keep={keep}/c", user="ben", tags=("lr-0.1",), workers=4)
    until(lambda: desk.report(swept)["state"] == "running", "the sweep")
    desk.tony("kill", swept)
    desk.wait(swept)
    desk.wait(desk.submit("translate", f"lack={keep}/vocabulary.txt", user="ben", workers=2))
    shown = desk.submit(
        "digits",
        f"steps=600 pace=0.08 keep={keep}/d break=worker:1@170",
        tags=("nightly", "vision"),
        workers=3,
        restarts=2,
    )
    desk.submit("embeddings", f"steps=4000 pace=0.05 keep={keep}/e", user="ben", workers=2)
    return shown


def main() -> int:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("there is no Chromium on PATH; on Debian: apt-get install chromium", file=sys.stderr)
        return 2
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tony-pictures-") as folder:
        desk = Desk(Path(folder))
        try:
            with desk.portal() as address, sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                context = browser.new_context(
                    base_url=address,
                    viewport={"width": WIDTH, "height": 900},
                    color_scheme="light",
                    locale="en-GB",
                    timezone_id="Europe/Berlin",
                    reduced_motion="reduce",
                )
                page = context.new_page()
                shown = jobs_of(desk)
                page.goto(f"job/{shown}", wait_until="load")
                page.wait_for_function(HALF_DONE, arg=SHOWN_FROM, timeout=1000 * TIMEOUT_SECONDS)
                page.wait_for_function(DRAWN)
                take(page, desk, "job", "#tasks")
                page.goto("", wait_until="load")
                page.wait_for_selector(f"a[href*='{shown}']")
                take(page, desk, "jobs", "table")
                browser.close()
        finally:
            for job in json.loads(desk.tony("list", "--json")):
                if job["ended"] is None:
                    desk.tony("kill", job["job"])
                    desk.wait(job["job"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
