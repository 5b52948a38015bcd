"""A portal over a history in HDFS: jobs on YARN are shown to a user who has nothing but its address."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.change_detection import CLUSTER
from tests.e2e.lab import until
from tests.e2e.test_tensorboard import fetch, portal_of
from tests.mini_clusters import Clusters
from tests.portal.tensorboard.test_tensorboard_manager import write_events
from tests.web.sample_jobs import keep
from tests.yarn.lab import YarnLab, one_user, user
from tests.yarn.portals import history, seen
from tests.yarn.portals import until as until_true
from tony.linux.process import is_alive
from tony.mini.daemon_requests import send_request
from tony.model.state_directory import Home

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.xdist_group("shared-cluster"),
    pytest.mark.on_change(*CLUSTER, "portal", "history", "jobs", "storage", "web"),
]

LINES = 20_000
#: Writes an event file into HDFS, as a library would that knows such addresses, and prints much.
TRAINS = f"""
import json, os, sys, time, urllib.request
from urllib.parse import urlsplit

place = f"http://{{os.environ['NAMENODE']}}/webhdfs/v1{{urlsplit(os.environ['TB_LOG_DIR']).path}}"
place += f"/train/events.out.tfevents.1700000000.node7?op=CREATE&noredirect=true&user.name={{os.environ['WHO']}}"
with urllib.request.urlopen(urllib.request.Request(place, method="PUT")) as answer:
    where = json.load(answer)["Location"]
with open(f"{{os.environ['OUT']}}/events", "rb") as file:
    urllib.request.urlopen(urllib.request.Request(where, data=file.read(), method="PUT")).close()
for line in range({LINES}):
    print(f"line {{line:06d}} of what it prints")
print("it warns", file=sys.stderr, flush=True)
sys.stdout.flush()
open(f"{{os.environ['OUT']}}/up", "w").write("up")
while not os.path.exists(f"{{os.environ['OUT']}}/go"):
    time.sleep(0.05)
"""
OTHER = "local-20260101-000000-0a1b2c"


@dataclass(frozen=True, slots=True)
class Trained:
    """A job that has ended, and a portal on another machine.

    Attributes:
        base: the portal's address; it is over the history in HDFS.
        running: pages of the job while it ran, of a portal of its user's own: the job's, its task's, its log's; and of
            one over the history in HDFS: its log's.
        linked: what the cluster's pages answered then: label -> status, text.
    """

    lab: YarnLab
    job: str
    base: str
    running: tuple[str, str, str, str]
    linked: dict[str, tuple[int, str]]


@pytest.fixture(scope="module")
def trained(clusters: Clusters) -> Iterator[Trained]:
    """One job for all, on the shared cluster."""
    patch = pytest.MonkeyPatch()
    cluster = clusters.shared()
    patch.setenv("HADOOP_CONF_DIR", str(cluster.conf))
    try:
        with one_user(lambda folder: YarnLab(folder, cluster)) as lab:
            write_events(lab.root / "made").rename(lab.out / "events")
            summaries = f"hdfs:///user/{user()}/summaries/{{job_id}}"
            job = lab.detach(lab.roles(TRAINS, NAMENODE=lab.page("nn"), WHO=user(), TB_LOG_DIR=summaries))
            lab.wait_wrote("up")
            running = asyncio.run(_running(lab, job))
            linked = {label: fetch(href)[:2] for label, href in links("".join(running[:2]))}
            (lab.out / "go").touch()
            lab.wait(job, "succeeded")
            lab.wait_application(job)
            away = lab.elsewhere("away")
            with portal_of(away, "--history", history()) as base:
                until(lambda: fetch(f"{base}/job/{job}")[0] == 200, "the job's page")
                yield Trained(lab, job, base, running, linked)
            assert [] == list(Home(away.home).portal.glob("boards/*"))
    finally:
        patch.undo()


async def _running(lab: YarnLab, job: str) -> tuple[str, str, str, str]:
    async with seen(lab.home) as portal, seen(lab.root / "far", [history()]) as far:
        return (
            await portal.page(f"/job/{job}", "own pages"),
            await portal.page(f"/job/{job}/task/worker:0", "NodeManager"),
            await portal.page(f"/job/{job}/logs?task=worker:0", f"line {LINES - 1:06d} of what"),
            await far.page(f"/job/{job}/logs?task=worker:0", "is missing"),
        )


def links(page: str) -> list[tuple[str, str]]:
    """Label and address of every link to another server."""
    found = re.findall(r'<a href="(https?://[^"]*)" rel="noreferrer">([^<]*)</a>', page)
    return [(label, html.unescape(href)) for href, label in found]


def test_its_output_is_read_there(trained: Trained) -> None:
    """Both streams, at any place, searched and downloaded, by pages and by the API: YARN has collected them in HDFS."""
    log = f"{trained.base}/job/{trained.job}/logs?task=worker:0"
    last = fetch(f"{log}&stream=out")[1]
    assert f"line {LINES - 1:06d} of what" in last
    assert "line 000000 of" not in last
    assert "is missing" not in last
    assert "line 000000 of what" in fetch(f"{log}&after=start")[1]
    assert "line 012345 of what" in fetch(f"{log}&text=line+012345")[1]
    assert "<time data-exact" in last  # YARN has collected the times as well
    whole = "".join(f"line {line:06d} of what it prints\n" for line in range(LINES))
    assert fetch(f"{trained.base}/api/v1/jobs/{trained.job}/logs/worker-0.s1.t1.out/download")[:2] == (200, whole)
    assert "it warns" in fetch(f"{log}&stream=err")[1]
    assert "it warns" in fetch(f"{trained.base}/job/{trained.job}/task/worker:0")[1]
    piece = f"{trained.base}/api/v1/jobs/{trained.job}/logs/worker-0.s1.t1.out?offset=30&most=30"
    assert "line 000001 of what it prints" in fetch(piece)[1]


def test_output_of_a_running_job_is_read(trained: Trained) -> None:
    """By its own user: no client had followed it, so its AM was asked. Other users are told where it is shown."""
    assert f"line {LINES - 1:06d} of what" in trained.running[2]
    assert "<time data-exact" in trained.running[2]
    assert "the job is running: its output is shown by its own pages" in trained.running[3]


def test_links_lead_to_pages_of_the_cluster(trained: Trained) -> None:
    """To the ResourceManager's page of the application; while it runs to its own, behind the proxy, and the node's."""
    assert {"ResourceManager", "the job&#39;s own pages", "NodeManager"} == set(trained.linked)
    assert [200] * 3 == [status for status, _ in trained.linked.values()]
    assert trained.job in trained.linked["ResourceManager"][1]
    assert "worker-0.s1.t1.out" in trained.linked["NodeManager"][1]
    # A page does not wait for long for what the cluster says.
    afterwards = until(lambda: links(fetch(f"{trained.base}/job/{trained.job}")[1]), "there are links")
    assert [("ResourceManager", f"http://{trained.lab.page('rm')}/cluster/app/{trained.job}")] == afterwards
    status, text, _ = fetch(afterwards[0][1])
    assert (status, trained.job in text) == (200, True)
    task = f"{trained.base}/job/{trained.job}/task/worker:0"
    until(lambda: re.search(r"<code>container_(e[0-9]+_)?[0-9_]+</code>", fetch(task)[1]), "its container is named")


def test_removed_output_is_reported_as_removed(trained: Trained, tmp_path: Path) -> None:
    """The page says why, and what to do."""
    place, away = f"/app-logs/{user()}", f"/app-logs-away-{user()}"
    _rename(trained.lab, place, away)
    try:

        async def look() -> None:
            async with seen(tmp_path, [history()]) as portal:
                page = await portal.page(f"/job/{trained.job}/logs?task=worker:0", "is missing")
                assert "YARN aggregated the logs to HDFS, but they are no longer there" in page
                assert "`tony logs -f` keep what they show" in page

        asyncio.run(look())
    finally:
        _rename(trained.lab, away, place)


def _rename(lab: YarnLab, old: str, new: str) -> None:
    send_request(lab.page("nn"), "PUT", f"/webhdfs/v1{old}?op=RENAME&destination={new}&user.name={user()}")


def test_tensorboards_are_few_and_end(trained: Trained, tmp_path: Path) -> None:
    """One on event files in HDFS shows scalars; a second is refused while it is in use; it ends when idle."""
    pytest.importorskip("tensorboard", reason="needs TensorBoard, which is not in this environment")
    write_events(keep(Home(tmp_path), OTHER, user=user()).work / "worker-0")
    job = trained.job
    pids: list[int] = []

    async def look() -> None:
        async with seen(tmp_path, [str(tmp_path), history()], most=1, idle=1.0) as portal:
            await portal.page(f"/job/{OTHER}")
            await portal.page(f"/tensorboard/{job}", "1 event file")
            with ExitStack() as stack:

                async def held() -> bool:  # on a busy machine it may end before we have asked it for anything
                    answer = await portal.start(job)
                    assert answer.status_code == 200, answer.text
                    board = portal.boards.find((job,))
                    if board is not None:
                        stack.enter_context(board.track_use())
                    return board is not None

                await until_true(held)
                pids.extend(portal.boards.pids)
                await portal.page(f"/tensorboard/{job}/board/data/plugin/scalars/tags", "loss")
                found = await portal.page(f"/tensorboard/{job}/board/data/plugin/scalars/scalars?run=train&tag=loss")
                assert "0.0625" in found
                refused = await portal.start(OTHER)
                assert (503, True) == (refused.status_code, "all 1 TensorBoards" in refused.text)

            async def ended() -> bool:
                return portal.boards.find((job,)) is None and not any(map(is_alive, pids))

            await until_true(ended, lambda: "it ends when idle")
            assert [200] == [(await portal.start(OTHER)).status_code]
            pids.extend(portal.boards.pids)

    asyncio.run(look())
    assert [] == [pid for pid in pids if is_alive(pid)]
    assert [] == list((Home(tmp_path).portal / "boards").iterdir())
