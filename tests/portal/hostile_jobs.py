"""Two users of one machine: a victim, and a neighbour whose jobs lie in a history that a portal of the victim shows.

The neighbour makes everything of their job directories what it must not be: links to the victim's files, pipes, files
of other users.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from tests.jobs.fake_am import logged, recorded
from tests.portal.tensorboard.test_tensorboard_manager import until
from tests.web.sample_jobs import TEST_PROXY, as_peer, keep
from tests.web.test_hostile import PAGES, VALUES
from tony.core.events import AttemptStarted, SessionOpened
from tony.history.event_log import settings_digest
from tony.history.job_record import read_summary
from tony.history.json_files import write_json
from tony.model.codec import to_plain
from tony.model.job_spec import JobSpec, Role
from tony.model.state_directory import Home, JobFolder
from tony.portal.histories.history_locations import open_location
from tony.portal.indexed_jobs import IndexedJobs
from tony.portal.tensorboard.tensorboard_routes import TensorBoardRoutes
from tony.web.api.request_handler import OPERATIONS
from tony.web.app import create
from tony.web.server_context import ServerContext
from tony.web.user_authentication import AuthConfig, Authenticator

#: Stands in every file of the victim's job, and may not be in any answer to the neighbour.
CANARY = "canary-5f0c1e7a"
#: A secret of the victim's job.
PASSWORD = "correct-horse-9"
VICTIM = "local-20260101-000000-00a11a"
#: The user id of the neighbour, and of a third user, who are in no password file.
NEIGHBOUR_UID, THIRD_UID = 54321, 54322
LOG = "worker-0.s1.t1.out"
FILES = (
    "job.json",
    "summary.json",
    "am.log",
    "am.json",
    "metrics.db",
    "events.1.jsonl",
    "pinned.json",
    f"logs/{LOG}",
)
FOLDERS = ("logs", "secret", "work")


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """The state directory of the victim, and the history that both can write."""

    home: Home
    shared: Home

    @property
    def victim(self) -> JobFolder:
        return self.home.job(VICTIM)

    def add(self, number: int, **spec: object) -> JobFolder:
        """Put another job of the neighbour into the shared history."""
        folder = keep(self.shared, f"local-20260102-000000-{number:06x}", user="ben", **spec)  # type: ignore[arg-type]
        shutil.copy(folder.logs / LOG, folder.am_log)
        self.give(folder.path, NEIGHBOUR_UID)
        return folder

    def add_running(self, number: int, roles: Mapping[str, Role] | None = None) -> JobFolder:
        """Put a job of the neighbour there that has not ended."""
        spec = JobSpec(name="digits", command="true", roles=roles or {"worker": Role(instances=2)})
        folder, record = recorded(self.shared, f"local-20260103-000000-{number:06x}", spec)
        write_json(folder.job, to_plain(replace(record, user="ben")))
        started = AttemptStarted(attempt=1, wall=record.submitted, settings=settings_digest(record.spec))
        logged(folder, [started, SessionOpened(session=1, reason="begun")])
        self.give(folder.path, NEIGHBOUR_UID)
        return folder

    def give(self, path: Path, uid: int) -> None:
        """Make a file, or a folder with all in it, another user's, as far as that is possible here."""
        if os.geteuid() == 0:
            for each in (path, *path.rglob("*")):
                os.chown(each, uid, uid, follow_symlinks=False)


def build_neighbourhood(folder: Path) -> Neighbourhood:
    """Make both places, with the job of the victim."""
    made = Neighbourhood(home=Home(folder / "home"), shared=Home(folder / "shared"))
    made.shared.jobs.mkdir(parents=True)
    made.shared.jobs.chmod(0o777)
    victim = keep(made.home, VICTIM, user="ann", name=CANARY, env={"MY_PASSWORD": PASSWORD})
    shutil.copy(victim.job, victim.secret_job)
    ended = read_summary(victim)
    assert ended is not None
    write_json(victim.summary, to_plain(replace(ended, user="ann", session_reason=CANARY)))
    for path in (victim.am_log, victim.logs / LOG, victim.credentials, victim.am, victim.pinned):
        path.write_text(json.dumps({"canary": CANARY}) + "\n")
    events = victim.events(1).read_text()
    victim.events(1).write_text(events + json.dumps(_user_command(len(events.splitlines()))) + "\n")
    (victim.work / "worker-0").mkdir(exist_ok=True)
    (victim.work / "worker-0" / "events.out.tfevents.1.canary").write_text(CANARY)
    return made


def _user_command(number: int) -> dict[str, object]:
    return {
        "seq": number,
        "at": 1e6,
        "wall": 1.8e9,
        "event": "log-level-requested",
        "data": {"actor": {"name": CANARY}, "level": "x"},
    }


def spoil(near: Neighbourhood, folder: JobFolder, names: Sequence[str], how: str) -> None:
    """Make something else of files and folders of a job directory."""
    for name in names:
        path, target = folder.path / name, near.victim.path / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        if how == "link":
            path.symlink_to(target)
        elif how == "link to a link":
            (path.parent / ".link").unlink(missing_ok=True)
            (path.parent / ".link").symlink_to(target)
            path.symlink_to(".link")
        elif how == "pipe":
            os.mkfifo(path)
        elif how == "hard link":
            os.link(target, path)
        elif target.is_dir():
            shutil.copytree(target, path)
            near.give(path, THIRD_UID)
        else:
            shutil.copy(target, path)
            near.give(path, THIRD_UID)


def addresses(job: str) -> Iterator[tuple[str, str]]:
    """Method and address of every page and every operation about a job."""
    for page in (*PAGES, "/advice", "/compare", "/goodput"):
        yield "GET", f"/job/{job}{page}"
    yield "GET", f"/tensorboard/{job}"
    for path in FILES:
        yield "GET", f"/api/v1/jobs/{job}/file?path={path}"
    for each in OPERATIONS:
        if "{job}" in each.path:
            words = [
                f"{known.name}={job if known.name == 'with' else VALUES[known.name]}"
                for known in each.parameters
                if known.required and not known.in_path
            ]
            path = each.path.replace("{job}", job).replace("{name}", LOG)
            yield each.method, f"/api/v1{path}?{'&'.join(words)}"


class Browser:
    """The neighbour, who has a token of the victim's portal."""

    def __init__(self, client: httpx.AsyncClient, user: str) -> None:
        self._client = client
        self._user = {"x-user": user}
        self.answers = 0

    async def get(self, address: str) -> httpx.Response:
        return await self.ask("GET", address)

    async def ask(self, method: str, address: str) -> httpx.Response:
        """Ask for one address, or for a change."""
        self.answers += 1
        content = b""
        if method != "GET":
            me = await self._client.get("/api/v1/me", headers=self._user)
            content = json.dumps({"token": me.json()["page_token"]}).encode()
        return await self._client.request(method, address, headers=self._user, content=content)

    async def crawl(self, job: str) -> list[str]:
        """Return what showed something of the victim's."""
        found = []
        for method, address in addresses(job):
            answer = await self.ask(method, address)
            if CANARY in answer.text or PASSWORD in answer.text:
                found.append(f"{method} {address}: {answer.text[:300]}")
        return found

    async def listed(self) -> set[str]:
        """Return the jobs that the neighbour sees."""
        return {each["job"] for each in (await self.get("/api/v1/jobs?most=200")).json()["jobs"]}


@asynccontextmanager
async def portal_of_victim(near: Neighbourhood, user: str = "ben") -> AsyncIterator[Browser]:
    """A portal of the victim that shows both locations, and an authenticator for its users."""
    locations = [str(near.home.path), str(near.shared.path)]
    stores = [open_location(each, near.home, os.environ) for each in locations]
    portal = IndexedJobs(near.home, stores, "jobs of a test")
    context = ServerContext(
        portal,
        Authenticator(AuthConfig(key=b"k" * 32, owner="ann", proxies=(TEST_PROXY,), admins=("boss",))),
        boards=True,
    )
    boarding = TensorBoardRoutes(near.home, portal, context)
    app = create(context, boarding.build_routes())
    transport = httpx.ASGITransport(app=as_peer(app, None), client=("10.0.0.1", 50000), raise_app_exceptions=False)
    await portal.start()
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8600", timeout=120) as client:
            yield Browser(client, user)
    finally:
        await boarding.close()
        await portal.close()


async def wait_for(browser: Browser, jobs: set[str]) -> None:
    """Wait until the neighbour sees some jobs."""

    async def all_there() -> bool:
        return jobs <= await browser.listed()

    await until(all_there)


# --- what is opened ---------------------------------------------------------------------------------------------------


def crawl_audited(folder: Path) -> list[str]:
    """Return each path below the shared history that any code opened by its whole path, while all of it was shown."""
    near = build_neighbourhood(folder)
    jobs = {near.add(1).job_id, near.add_running(2).job_id}
    opened: list[str] = []
    roots = 0
    below = f"{near.shared.path}/"

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal roots
        roots += event == "open" and arguments[0] == str(near.shared.path)
        for each in arguments:
            text = os.fsdecode(each) if isinstance(each, bytes | os.PathLike) else each
            if isinstance(text, str) and below in text and event != "compile":
                opened.append(f"{event} {text}")

    async def crawl() -> None:
        async with portal_of_victim(near) as browser:
            await wait_for(browser, jobs)
            for job in jobs:
                await browser.crawl(job)

    sys.addaudithook(hook)
    asyncio.run(crawl())
    assert roots, "the reader has opened nothing, so this test shows nothing"
    return opened


def main(check: Callable[[Path], list[str]] = crawl_audited) -> None:
    """Say what was found; a process of its own, for a hook stays until the end."""
    print(json.dumps(check(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
