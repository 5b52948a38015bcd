"""Notifications: what is sent, signed and tried again; and that a job never waits for a receiver."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.am.in_process_job import InProcessJob, play
from tests.core.specs import FAILED, OK
from tests.facts import mentions
from tests.jobs.fake_am import TWO_WORKERS, failed, recorded, standing, succeeded
from tests.support.waiting import wait_until
from tony import clock
from tony.am import notifications as module
from tony.am.http_post import WebhookRejectedError, WebhookTarget, post
from tony.am.notifications import Notifications
from tony.client.certificate_authority import CertificateAuthority
from tony.model.job_report import JobReport
from tony.model.job_spec import NOTICES, JobSpec, Notify, Role
from tony.model.program_exit import ExitStatus
from tony.model.state_directory import Home
from tony.model.states import JobState, TaskState
from tony.protocol.executor_messages import StartProgram
from tony.protocol.launch import TaskPart
from tony.retry import Backoff

PATH = "/services/T0/XYZZY"
#: Answers a request that was read, on its connection.
Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def says(status: int, *headers: str) -> Answer:
    """An answer of one line and some headers."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status} So", "Content-Length: 0", *headers, "", ""]
        writer.write("\r\n".join(lines).encode())

    return answer


async def silent(writer: asyncio.StreamWriter) -> None:
    """No answer, for as long as the test runs."""
    await asyncio.sleep(600)


async def slowly(writer: asyncio.StreamWriter) -> None:
    """A byte now and then, and never an end: a timeout for each read alone would never expire."""
    while True:
        writer.write(b"H")
        await asyncio.sleep(0.01)


async def hangs_up(writer: asyncio.StreamWriter) -> None:
    writer.close()


async def nonsense(writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")


async def breaks_off(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 2")


@dataclass(slots=True)
class Place:
    """Where notices go.

    Attributes:
        answers: to the next requests; the last one stays.
        got: head and body of each request.
    """

    answers: list[Answer]
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    port: int = 0
    scheme: str = "http"

    @property
    def address(self) -> str:
        """To be written into a job file."""
        return f"{self.scheme}://localhost:{self.port}{PATH}"

    @property
    def said(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines)
            body = await reader.readexactly(int(headers["Content-Length"]))
            assert first == f"POST {PATH} HTTP/1.1"
            self.got.append((headers, body))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            await answer(writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # cancelled: the test has ended and the answer has not
        finally:
            writer.close()


@asynccontextmanager
async def place(*answers: Answer, context: ssl.SSLContext | None = None) -> AsyncIterator[Place]:
    made = Place(list(answers) or [says(200)], scheme="https" if context else "http")
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=context)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are short; and on a busy machine the job's end has time."""
    monkeypatch.setattr(module, "FINISH_TIMEOUT_SECONDS", 60.0)
    monkeypatch.setattr(module, "BACKOFF", Backoff(first=0.01, most=60.0))
    monkeypatch.setattr(module, "FINISH_PAUSE_SECONDS", 0.01)


@pytest.fixture
def report(tmp_path: Path) -> JobReport:
    return failed(*recorded(Home(tmp_path)))


def notices(to: Place, report: JobReport, **values: Any) -> Notifications:
    """Those of a job that wants all of them."""
    return Notifications(Notify(webhook=to.address, on=NOTICES, **values), report.job, 1, lambda: report)


class TestWhatIsSent:
    async def test_the_job_in_short(self, report: JobReport) -> None:
        """Its failure, its tasks, one line for people; nothing of what programs printed."""
        async with place() as there:
            await notices(there, report).finish(report)
            (headers, body), (said,) = there.got[0], there.said
        assert headers["Content-Type"] == "application/json"
        assert (headers["X-Tony-Event"], headers["X-Tony-Delivery"]) == ("failed", f"{report.job}.1.1")
        assert "X-Tony-Signature" not in headers
        assert (said["version"], said["event"]) == (1, "failed")
        assert mentions(said["text"], "8 s", report.job, "failed", "worker:1 on here: exit code 3")
        assert (said["job"]["state"], said["job"]["exit_code"]) == ("failed", 1)
        assert said["job"]["tasks"] == {"stopped": 1, "failed": 1}
        assert said["job"]["failure"]["task"] == "worker:1"
        assert b"ValueError" not in body

    async def test_a_signature(self, report: JobReport) -> None:
        """It is over the moment and the body, and each try has its own moment."""
        async with place(says(500), says(204)) as there:
            await notices(there, report, secret="k3y").finish(report)
        assert len(there.got) == 2
        for headers, body in there.got:
            signed = headers["X-Tony-Timestamp"].encode() + b"." + body
            expected = hmac.new(b"k3y", signed, hashlib.sha256).hexdigest()
            assert headers["X-Tony-Signature"] == f"sha256={expected}"
            assert abs(float(headers["X-Tony-Timestamp"]) - clock.wall()) < 60
        assert len({headers["X-Tony-Delivery"] for headers, _ in there.got}) == 1

    async def test_only_selected_events_are_sent(self, tmp_path: Path, report: JobReport) -> None:
        """Without an address nothing is built."""
        async with place() as there:
            wanted = Notifications(Notify(webhook=there.address, on=("succeeded",)), "j", 1, lambda: report)
            wanted.on_restarted("so")
            await wanted.finish(report)
            assert there.got == []
            silent_one = Notifications(Notify(), "j", 1, lambda: report)
            silent_one.on_restarted("so")
            await silent_one.finish(report)
        good = succeeded(*recorded(Home(tmp_path), report.job[:-1] + "d"))
        async with place() as there:
            await notices(there, good).finish(good)
            assert there.said[0]["job"]["failure"] is None

    async def test_in_order(self, report: JobReport) -> None:
        """What came first is told first, though it is tried again; the start is told once."""
        async with place(says(503), says(503), says(200)) as there:
            made = notices(there, report)
            made.on_started(1)
            made.on_started(1)
            made.on_restarted("worker:1 failed")
            await wait_until(lambda: len(there.got) == 4)
            await made.finish(report)
        assert [said["event"] for said in there.said][2:] == ["started", "restarted", "failed"]


class TestWhatGoesWrong:
    @pytest.mark.parametrize(
        ("answer", "why", "again"),
        [
            (says(500), "it answered with status 500", True),
            (says(429), "it answered with status 429", True),
            (says(404), "it answered with status 404", False),
            (
                says(302, "Location: http://127.0.0.1:1/"),
                r"it redirects \(302\), which is not followed",
                False,
            ),
            (says(307, "Location: /"), "redirects", False),
            (hangs_up, "the connection was closed without an answer", True),
            (nonsense, "its answer is not HTTP", False),
            (breaks_off, "its answer is not HTTP", True),
            (silent, "no answer within 0.5 s", True),
            (slowly, "no answer within|its answer is not HTTP|closed without", True),
        ],
    )
    async def test_an_answer(self, answer: Answer, why: str, again: bool) -> None:
        """What it means, and whether it is worth another try."""
        async with place(answer) as there:
            with pytest.raises(WebhookRejectedError, match=why) as caught:
                await post(
                    WebhookTarget.from_address(there.address), b"{}", {}, 0.5 if answer in (silent, slowly) else 30
                )
            assert caught.value.is_retryable is again
            assert "XYZZY" not in str(caught.value)

    async def test_an_unreachable_address(
        self, report: JobReport, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The end of the job waits for a few seconds at most; the log names the host without the path."""
        monkeypatch.setattr(module, "FINISH_TIMEOUT_SECONDS", 0.3)
        caplog.set_level(logging.INFO)
        async with place() as there:
            pass
        made = notices(there, report)
        made.on_restarted("so")
        await wait_until(lambda: "could not be notified yet" in caplog.text)
        began = clock.monotonic()
        await made.finish(report)
        assert clock.monotonic() - began < 30
        host = f"http://localhost:{there.port}"
        assert mentions(caplog.text, host, "restarted")
        assert mentions(caplog.text, "0.3 s", host, "failed")
        assert "XYZZY" not in caplog.text

    async def test_a_server_that_does_not_answer(
        self, report: JobReport, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "FINISH_TIMEOUT_SECONDS", 0.3)
        async with place(silent) as there:
            await notices(there, report).finish(report)
        assert mentions(caplog.text, "0.3 s", "failed")

    async def test_it_is_not_tried_for_ever(
        self, report: JobReport, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nor does one notice hold up the next for ever."""
        monkeypatch.setattr(module, "DELIVERY_TIMEOUT_SECONDS", 0.05)
        async with place(says(500)) as there:
            made = notices(there, report)
            made.on_restarted("so")
            await wait_until(lambda: "was not notified that the job restarted after" in caplog.text)
            there.answers = [says(200)]
            await made.finish(report)
            assert there.said[-1]["event"] == "failed"

    async def test_too_many(self, report: JobReport, caplog: pytest.LogCaptureFixture) -> None:
        async with place(silent) as there:
            made = notices(there, report)
            for _ in range(module._MAX_WAITING + 2):
                made.on_restarted("so")
            made.drop()
        assert caplog.text.count("too many are waiting") == 2


class TestTls:
    async def test_a_certificate_that_is_trusted(
        self, tmp_path: Path, report: JobReport, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By the machine's own list, which SSL_CERT_FILE may name; the host must be the one in it."""
        trusted, authority = certified(tmp_path, "localhost")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        async with place(context=trusted) as there:
            await notices(there, report).finish(report)
            assert there.said[0]["event"] == "failed"
            there.scheme = "http"
            with pytest.raises(WebhookRejectedError):
                await post(WebhookTarget.from_address(there.address), b"{}", {}, 30)
        context, authority = certified(tmp_path, "elsewhere")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        async with place(context=context) as there:
            with pytest.raises(
                WebhookRejectedError, match="its certificate is not trusted: hostname mismatch"
            ) as caught:
                await post(WebhookTarget.from_address(there.address), b"{}", {}, 30)
            assert not caught.value.is_retryable

    async def test_one_that_is_not(self, tmp_path: Path, report: JobReport, caplog: pytest.LogCaptureFixture) -> None:
        """It is not tried again, and nothing was sent."""
        async with place(context=certified(tmp_path, "localhost")[0]) as there:
            await notices(there, report).finish(report)
            assert there.got == []
        assert "was not notified that the job failed: its certificate is not trusted: " in caplog.text

    async def test_no_tls_there(self) -> None:
        async def greets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await nonsense(writer)
            with suppress(asyncio.CancelledError, ConnectionError):
                await reader.read()
            writer.close()

        server = await asyncio.start_server(greets, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(WebhookRejectedError, match="the TLS handshake failed: ") as caught:
            await post(WebhookTarget.from_address(f"https://localhost:{port}/"), b"{}", {}, 30)
        assert not caught.value.is_retryable
        server.close()


def certified(folder: Path, name: str) -> tuple[ssl.SSLContext, Path]:
    """What a server of that name shows, and the file of the authority that signed it."""
    made = CertificateAuthority().sign("", name)
    assert made.certificate
    assert made.key
    assert made.ca
    for file, text in (("pem", made.certificate + made.key), ("ca", made.ca)):
        (folder / f"{name}.{file}").write_text(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.pem")
    return context, folder / f"{name}.ca"


def test_addresses() -> None:
    """With the usual ports left out, and without the path, which may be a secret."""
    assert str(WebhookTarget.from_address("https://h.example/x?y=z")) == "https://h.example"
    assert WebhookTarget.from_address("https://h.example?y=z").path == "/?y=z"
    assert str(WebhookTarget.from_address("http://[::1]:81/x")) == "http://[::1]:81"
    assert WebhookTarget.from_address("http://h").port == 80


async def test_a_job_that_was_killed(report: JobReport, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with place() as there:
        await notices(there, report).finish(replace(report, state=JobState.KILLED))
    assert "was notified that the job was killed" in caplog.text


async def test_a_whole_job(tmp_path: Path) -> None:
    """It starts, fails, and starts again: each is told once, by a real application master."""

    def behave(part: TaskPart, message: StartProgram) -> ExitStatus:
        return FAILED if message.session == 1 else OK

    async with place() as there:
        spec = JobSpec(
            command="x",
            roles={"worker": Role(instances=2)},
            max_restarts=1,
            notify=Notify(webhook=there.address, on=NOTICES),
        )

        async def meanwhile(job: InProcessJob) -> None:
            await wait_until(lambda: len(there.got) == 2)

        _, finish = await asyncio.to_thread(play, tmp_path, spec, behave, meanwhile=meanwhile)
        assert finish.state is JobState.SUCCEEDED
        assert [said["event"] for said in there.said] == ["started", "restarted"]
        assert ": exit code" in there.said[1]["reason"]


def test_the_notification_of_a_running_job(tmp_path: Path) -> None:
    folder, record = recorded(Home(tmp_path), spec=replace(TWO_WORKERS, tags=("nightly",)))
    report = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    said = module.build_notice("restarted", "x" * 5000, replace(report, tags=("nightly",)), 5.0)
    assert said["at"] == 5.0
    assert len(str(said["reason"])) == 2000
    job = said["job"]
    assert isinstance(job, dict)
    assert (job["tags"], job["ended"], job["tasks"]) == (["nightly"], None, {"running": 2})
