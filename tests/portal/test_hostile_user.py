"""A neighbour in a shared history, who means no good: nothing of another user's is shown, changed or called.

Needs no root: what is another user's is then of the same user, and only the ownership itself is not checked.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.portal.hostile_jobs import (
    CANARY,
    FILES,
    FOLDERS,
    LOG,
    NEIGHBOUR_UID,
    PASSWORD,
    THIRD_UID,
    Neighbourhood,
    addresses,
    build_neighbourhood,
    portal_of_victim,
    spoil,
    wait_for,
)
from tests.portal.tensorboard.test_tensorboard_manager import until
from tony.model.state_directory import JobFolder

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def near(tmp_path: Path) -> Neighbourhood:
    return build_neighbourhood(tmp_path)


def run(what: Awaitable[None]) -> None:
    async def main() -> None:
        await what

    asyncio.run(main())


def is_victims(text: str) -> bool:
    """Return True if something of the victim's is in an answer."""
    return CANARY in text or PASSWORD in text


@pytest.mark.parametrize("how", ["link", "link to a link", "pipe", pytest.param("another user's", marks=ROOT)])
async def test_no_url_shows_the_target_of_a_link_in_a_job_directory(near: Neighbourhood, how: str) -> None:
    """Before the portal knows the job, and afterwards."""
    groups: list[Sequence[str]] = [FILES[1:], FOLDERS, FILES[:1]]
    spoiled = [near.add(number) for number in range(len(groups))]
    later: list[Sequence[str]] = [[name] for name in (*FILES, "logs")] if how == "link" else groups[:2]
    known = [near.add(100 + number) for number in range(len(later))]
    for folder, names in zip(spoiled, groups, strict=True):
        spoil(near, folder, names, how)
    async with portal_of_victim(near) as browser:
        await wait_for(browser, {folder.job_id for folder in known})
        for folder, names in zip(known, later, strict=True):
            assert (await browser.get(f"/api/v1/jobs/{folder.job_id}")).status_code == 200
            spoil(near, folder, names, how)
        for folder in (*spoiled, *known):
            assert await browser.crawl(folder.job_id) == [], how


@ROOT
async def test_hard_links_are_not_read(near: Neighbourhood) -> None:
    """Where the kernel lets a user make one to a file that they cannot read, its owner is still another user."""
    folder = near.add(1)
    spoil(near, folder, FILES[2:], "hard link")
    async with portal_of_victim(near) as browser:
        await wait_for(browser, {folder.job_id})
        assert await browser.crawl(folder.job_id) == []


@pytest.mark.parametrize("what", ["link", pytest.param("directory", marks=ROOT)])
def test_a_job_directory_that_is_replaced(near: Neighbourhood, what: str) -> None:
    """Rights were decided by one directory: nothing is read of what stands at its place then."""
    folder = near.add(1)
    other = near.victim.path
    if what == "directory":  # of a third user, in the same history, where the neighbour can rename it
        other = near.shared.jobs / ".other"
        subprocess.run(["cp", "-r", near.victim.path, other], check=True)
        near.give(other, THIRD_UID)

    async def check() -> None:
        async with portal_of_victim(near) as browser:
            await wait_for(browser, {folder.job_id})
            first = await browser.get(f"/api/v1/jobs/{folder.job_id}/logs/{LOG}?offset=0")
            assert "line of out" in first.text
            for method, address in addresses(folder.job_id):
                await wait_for(browser, {folder.job_id})  # the scanner may have seen that it was not there
                assert not is_victims((await browser.ask(method, address)).text)  # all of it is cached now
                with replaced(folder, other, what):
                    assert not is_victims((await browser.ask(method, address)).text), address

            async def is_shown_again() -> bool:
                answer = await browser.get(f"/api/v1/jobs/{folder.job_id}/logs/{LOG}?offset=0")
                return "line of out" in answer.text

            await until(is_shown_again)

    run(check())


async def test_a_job_directory_that_changes_all_the_time(near: Neighbourhood) -> None:
    folder = near.add(1)
    ended = threading.Event()

    def swap() -> None:
        for part in itertools.cycle(("logs", "")):
            if ended.is_set():
                return
            with replaced(folder, near.victim.path, "link", part):
                pass

    async with portal_of_victim(near) as browser:
        await wait_for(browser, {folder.job_id})
        swapping = threading.Thread(target=swap)
        swapping.start()
        try:
            for _ in range(60):
                answer = await browser.get(f"/api/v1/jobs/{folder.job_id}/logs/{LOG}?offset=0")
                assert not is_victims(answer.text)
                answer = await browser.get(f"/api/v1/jobs/{folder.job_id}/file?path=logs/{LOG}")
                assert not is_victims(answer.text)
        finally:
            ended.set()
            swapping.join()


@contextmanager
def replaced(folder: JobFolder, other: Path, what: str, part: str = "") -> Iterator[None]:
    """Another user's directory at the place of a job's own, or of a folder in it."""
    path = folder.path / part if part else folder.path
    aside = path.with_name(f".old-{path.name}")
    os.rename(path, aside)
    if what == "link":
        path.symlink_to(other / part if part else other)
    else:
        os.rename(other, path)
    try:
        yield
    finally:
        if what == "link":
            path.unlink()
        else:
            os.rename(path, other)
        os.rename(aside, path)


# --- changes ----------------------------------------------------------------------------------------------------------

CHANGES = ("stop", "restart", "stacks?task=worker:0", "log-level?level=debug")


@pytest.mark.parametrize("user", ["ben", "boss"])
@pytest.mark.parametrize("secret", ["linked", "own"])
async def test_nothing_is_called_that_another_users_job_names(near: Neighbourhood, user: str, secret: str) -> None:
    """Neither the victim's application master, with the victim's credentials, nor any other address."""
    folder = near.add_running(1)
    if secret == "linked":
        shutil.rmtree(folder.secret)
        folder.secret.symlink_to(near.victim.secret)
    else:
        folder.credentials.write_text(near.victim.credentials.read_text())
    with socket.socket(socket.AF_UNIX) as master, socket.create_server(("127.0.0.1", 0)) as port:
        master.bind(str(near.home.path / "am.sock"))
        master.listen()
        for address in (f"unix:{near.home.path}/am.sock", f"tls:127.0.0.1:{port.getsockname()[1]}"):
            told = {"pid": 1, "host": "x", "attempt": 1, "address": address}
            folder.am.write_text(json.dumps(told))
            near.give(folder.path, NEIGHBOUR_UID)
            async with portal_of_victim(near, user) as browser:
                await wait_for(browser, {folder.job_id})
                for what in CHANGES:
                    answer = await browser.ask("PUT", f"/api/v1/jobs/{folder.job_id}/{what}")
                    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not-own-job")
                    assert "own user" in answer.json()["error"]["message"]
                page = await browser.get(f"/job/{folder.job_id}")
                assert page.status_code == 200
                assert 'data-do="restart"' not in page.text
        for listening in (master, port):
            listening.setblocking(False)
            with pytest.raises(BlockingIOError):
                listening.accept()


async def test_masking_does_not_reveal_guessed_secrets(near: Neighbourhood) -> None:
    """Secrets behind a link would be masked in the neighbour's own output, wrong guesses not."""
    folder = near.add(1)
    folder.secret.rmdir()
    folder.secret.symlink_to(near.victim.secret)
    (folder.logs / LOG).write_text(f"candidate {PASSWORD}\n")
    async with portal_of_victim(near) as browser:
        await wait_for(browser, {folder.job_id})
        answer = await browser.get(f"/api/v1/jobs/{folder.job_id}/logs/{LOG}?offset=0")
        assert f"candidate {PASSWORD}" in answer.text


async def test_a_state_directory_that_others_can_write_is_another_users(near: Neighbourhood) -> None:
    """What lies there may be of any user: it is shown, and not acted upon."""
    folder = near.add_running(1)
    near.home.jobs.chmod(0o777)
    os.rename(folder.path, near.home.job(folder.job_id).path)
    async with portal_of_victim(near) as browser:
        await wait_for(browser, {folder.job_id})
        answer = await browser.ask("PUT", f"/api/v1/jobs/{folder.job_id}/stop")
        assert answer.json()["error"]["code"] == "not-own-job"


# --- who opens --------------------------------------------------------------------------------------------------------


def test_only_the_safe_reader_opens_files_of_a_shared_history(tmp_path: Path) -> None:
    """It opens relative to descriptors alone, so any absolute path that is opened below the history is by other
    code."""
    module = "tests.portal.hostile_jobs"
    command, root = [sys.executable, "-m", module, str(tmp_path)], Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
