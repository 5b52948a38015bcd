"""A secret is planted in a job and looked for in everything that shows jobs, at every time, in every form."""

from __future__ import annotations

import base64
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.e2e.lab import CEILING, Lab, read_files, until
from tests.e2e.test_tensorboard import portal_of
from tests.support.http_servers import webhook
from tony.web.api.request_handler import OPERATIONS

pytestmark = pytest.mark.e2e

#: A secret by the name of its variable, one that the job names, one of the submitting user's shell, and a parameter.
TOKEN, LICENSE, INHERITED, PARAMETER = "qzx-planted-4711/ü", "77 88 99 11", "qzx-inherited-4712", "qzx-parameter-4713"
PLANTED = [
    TOKEN,
    *(json.dumps(TOKEN)[1:-1], urllib.parse.quote(TOKEN), urllib.parse.quote(TOKEN, "")),
    base64.b64encode(TOKEN.encode()).decode()[:20],
    LICENSE,
    INHERITED,
    PARAMETER,
]
JOB = f"""
name = "planted"
source = "src"
viewers = ["vic"]
secret = ["LICENSE"]
max_restarts = 1
log_limit = "1m"
[env]
HF_TOKEN = "{TOKEN}"
LICENSE = "{LICENSE}"
[params]
db_password = "{PARAMETER}"
[notify]
webhook = "WEBHOOK"
on = ["started", "restarted", "failed"]
[roles.worker]
command = ["python", "program.py", "--token", "{TOKEN}", "--password={{params.db_password}}"]
exports = {{ ADDRESS = "listening at " }}
"""
#: Prints the secrets in many ways, fails with them; at its second start it waits for the file `go` before it fails.
PROGRAM = """
import base64, json, os, pathlib, sys, urllib.parse
names = ("HF_TOKEN", "LICENSE", "API_KEY_OUTSIDE")
for name in names:
    value = os.environ[name]
    print(value, json.dumps(value), repr(value), urllib.parse.quote(value), base64.b64encode(value.encode()).decode())
    print("to stderr", value, file=sys.stderr)
    half = len(value) // 2
    for part in (value[:half], value[half:], "\\r50 %\\r"):
        os.write(1, part.encode())
print("listening at http://here/" + os.environ["HF_TOKEN"], sys.argv)
os.write(2, ("no line end " + os.environ["LICENSE"]).encode())
if os.environ["SESSION_ID"] == "2":
    print("\\nready", flush=True)
    while not pathlib.Path(GO).exists():
        pathlib.Path(GO).parent.stat()
        import time; time.sleep(0.02)
def fail(token):
    raise ConnectionError(f"{token} was refused: {sys.argv}")
fail(os.environ["HF_TOKEN"])
"""
#: What a user of the command line may ask of the job.
COMMANDS = (
    "status JOB",
    "logs JOB --json",
    "events JOB",
    "events JOB --json",
    "timeline JOB",
    "advise JOB",
    "list --json",
    "history JOB",
)


def test_a_planted_secret_is_shown_nowhere(lab: Lab) -> None:
    """While the job runs, when it has ended, after the portal was started again, in a portal of another user."""
    other = lab.root / "other"
    go = lab.root / "go"
    lab.file("src/program.py", PROGRAM.replace("GO", repr(str(go))))
    vic = lab.tony("portal", "token", "--user", "vic", "--json").stdout
    eyes = lab.tony("portal", "token", "--user", "vic", "--json", env={"TONY_HOME": str(other)}).stdout
    own_token, other_token = json.loads(vic)["token"], json.loads(eyes)["token"]
    with ExitStack() as stack:
        address, notices = stack.enter_context(webhook())
        file = lab.job_file(JOB.replace("WEBHOOK", address))
        for words in (("submit", "--dry-run"), ("validate", "--resolved")):
            done = lab.tony(words[0], file, *words[1:])
            assert done.returncode == 0, done.stderr
            assert_absent(" ".join(words), done.stdout + done.stderr)
        job = lab.detach(file, env={"API_KEY_OUTSIDE": INHERITED})
        seconds = stack.enter_context(elsewhere(lab, other))
        with portal_of(lab) as base:
            lab.wait_output(job, "worker:0", "ready")
            lab.tony("log-level", job, "debug")
            crawl(base, job, own_token)
            crawl(seconds, job, other_token)
            ask_commands(lab, job, "stacks JOB", "status JOB --json", "logs JOB", "top JOB --once")
            assert_files(lab, job)
            go.touch()
            lab.wait(job, "failed")
        ask_commands(lab, job, *COMMANDS)
        crawl(stack.enter_context(portal_of(lab)), job, own_token)
        crawl(seconds, job, other_token)
        assert_files(lab, job)
        until(lambda: any(b"failed" in body for _, body in notices), "the notice of the failure")
        assert_absent("webhook", b"\n".join(body for _, body in notices).decode())


def assert_absent(where: str, text: str) -> None:
    """No form of a secret is in the text, which is not empty."""
    assert text, where
    assert [planted for planted in PLANTED if planted in text] == [], f"{where}: {text[:3000]}"


def assert_files(lab: Lab, job: str) -> None:
    """In no file of the state directory but those below `secret/`; and there are masked files at all."""
    masked = 0
    for path, content in read_files(lab.home):
        if path.parent.name != "secret":
            text = content.decode(errors="replace")
            assert [planted for planted in PLANTED if planted in text] == [], path
            masked += "*" * len(TOKEN.encode()) in text
    assert masked >= 4, "out, err, event log, ..."


def ask_commands(lab: Lab, job: str, *commands: str) -> None:
    """Run commands and look at all that they print."""
    for command in commands:
        done = lab.tony(*command.replace("JOB", job).split())
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert_absent(f"tony {command}", done.stdout + done.stderr)


@contextmanager
def elsewhere(lab: Lab, home: Path) -> Iterator[str]:
    """A portal with a state directory of its own, which shows the jobs of the first one."""
    before = lab.env["TONY_HOME"]
    lab.env["TONY_HOME"] = str(home)
    try:
        with ExitStack() as stack:
            base = stack.enter_context(portal_of(lab, "--history", str(lab.home)))
            lab.env["TONY_HOME"] = before
            yield base
    finally:
        lab.env["TONY_HOME"] = before


# --- every page and every operation -----------------------------------------------------------------------------------

#: Required parameters of operations.
VALUES = {
    "task": "worker:0",
    "role": "worker",
    "series": "cpu",
    "path": "job.json",
    "text": "planted",
    "level": "debug",
}


def crawl(base: str, job: str, token: str) -> None:
    """Fetch all that a viewer can reach by links, and every operation of the API."""
    until(lambda: fetch(f"{base}/job/{job}", token)[0] == 200, "the job's page")
    queue, seen = deque([f"{base}/", f"{base}/metrics", *operations(base, job, token)]), set[str]()
    logs = 0
    while queue:
        address = queue.popleft()
        page = address.partition("#")[0]
        if page in seen or not page.startswith(base) or "/assets/" in page:
            continue
        seen.add(page)
        status, text = fetch(page, token)
        assert status < 500 or status == 503, (page, text)
        assert [planted for planted in PLANTED if planted in text] == [], page
        logs += status == 200 and "*" * len(LICENSE) in text
        for link in re.findall(r'(?:href|src|data-later|data-points)="([^"]+)"', text):
            queue.append(urllib.parse.urljoin(page, link.replace("&amp;", "&")))
    assert logs >= 5, f"output was seen in {logs} of {len(seen)} pages"
    for wanted in ("/logs?", "/events", "/settings", "/files", "/tasks", "/timeline", "/task/worker"):
        assert any(wanted in page for page in seen), wanted


def operations(base: str, job: str, token: str) -> Iterator[str]:
    """The address of every operation that reads, for every file and log of the job."""
    api = f"{base}/api/v1"
    listed = json.loads(fetch(f"{api}/jobs/{job}/logs?task=worker:0", token)[1])
    names = [log["name"] for log in listed["logs"]]
    files = [file["path"] for file in json.loads(fetch(f"{api}/jobs/{job}/files", token)[1])["files"]]
    assert len(names) == 4
    assert "events.1.jsonl" in files
    for each in OPERATIONS:
        if each.method != "GET":
            continue
        for name in names if "{name}" in each.path else [""]:
            for file in files if each.path.endswith("/file") else ["job.json"]:
                values = {**VALUES, "with": job, "path": file}
                needed = [part.name for part in each.parameters if part.required and part.name in values]
                words = urllib.parse.urlencode({part: values[part] for part in needed})
                yield f"{api}{each.path.format(job=job, name=name)}?{words}"


def fetch(address: str, token: str) -> tuple[int, str]:
    """Status and text."""
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=CEILING) as answer:
            return answer.status, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(errors="replace")
