"""Webhook notifications about a job: `[notify]` in a job file.

Notifications are sent one after the other in the background: only the end of the job waits for them, and for seconds
only. The AM's log says what became of each, without the address, whose path may be a secret.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tony
from tony import clock
from tony.model.job_report import JobReport
from tony.model.job_spec import Notify
from tony.model.states import JobState
from tony.retry import Backoff
from tony.units import format_duration

if TYPE_CHECKING:
    from tony.am.http_post import WebhookTarget

log = logging.getLogger(__name__)

#: Seconds for one try, and for all tries of one notification.
TRY_TIMEOUT_SECONDS = 10.0
DELIVERY_TIMEOUT_SECONDS = 600.0
#: Between two tries.
BACKOFF = Backoff(first=1.0, most=60.0)
#: Seconds that the end of the job waits for what has not been sent yet, and between two tries then.
FINISH_TIMEOUT_SECONDS = 5.0
FINISH_PAUSE_SECONDS = 0.5
#: Maximum number of waiting notifications; the oldest are dropped first.
_MAX_WAITING = 100
#: Maximum characters of a sentence in a notification.
_MAX_REASON_CHARACTERS = 2000
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Notification:
    name: str
    id: str
    body: bytes
    since: float

    @property
    def did(self) -> str:
        """The event as part of a sentence."""
        return "was killed" if self.name == "killed" else self.name


class Notifications:
    """The notifications of one AM attempt.

    Args:
        report: returns the job's current report.
    """

    def __init__(self, notify: Notify, job: str, attempt: int, report: Callable[[], JobReport]) -> None:
        self._target = _parse_target(notify.webhook)
        self._key = (notify.secret or "").encode("utf-8", "surrogateescape")
        self._on = frozenset(notify.on)
        self._job, self._attempt, self._report = job, attempt, report
        self._number = 0
        self._waiting: deque[_Notification] = deque()  # the first one is being sent
        self._sending: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._started = False

    def on_started(self, session: int) -> None:
        """Handle that a program was started."""
        if not self._started:
            self._started = True
            if self._attempt == 1 and session == 1:
                self.notify("started", "its programs start")

    def on_restarted(self, reason: str) -> None:
        """Handle that a task or the gang restarts."""
        self.notify("restarted", reason)

    def on_stalled(self, reason: str) -> None:
        """Handle that the programs stopped making progress."""
        self.notify("stalled", reason)

    def on_straggler(self, reason: str) -> None:
        """Handle that a task was found to be slow."""
        self.notify("straggler", reason)

    def notify(self, what: str, reason: str = "", report: JobReport | None = None) -> None:
        """Send a notification soon, if the job asks for this kind."""
        if self._target is None or what not in self._on:
            return
        self._number += 1
        now = clock.wall()
        body = build_notice(what, reason, report or self._report(), now)
        text = json.dumps(body, separators=(",", ":")).encode()
        made = _Notification(
            name=what, id=f"{self._job}.{self._attempt}.{self._number}", body=text, since=clock.monotonic()
        )
        self._waiting.append(made)
        if len(self._waiting) > _MAX_WAITING:
            log.warning("the notification that the job %s was dropped: too many are waiting", self._waiting[1].did)
            del self._waiting[1]
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def finish(self, report: JobReport) -> None:
        """Send the job's outcome, and wait some seconds until that and earlier notifications are sent."""
        if report.state.ended:
            failure = None if report.state is JobState.SUCCEEDED else report.failure
            self.notify(report.state.value, failure.reason if failure else "", report)
        self._ending.set()
        if self._sending is None:
            return
        try:
            async with asyncio.timeout(FINISH_TIMEOUT_SECONDS):
                await asyncio.wait([self._sending])
        except TimeoutError:
            self._sending.cancel()
            await asyncio.wait([self._sending])
            for notice in self._waiting:
                log.warning(
                    "%s was not notified within %g s that the job %s", self._target, FINISH_TIMEOUT_SECONDS, notice.did
                )

    def drop(self) -> None:
        """Send nothing more: another AM attempt has the job, and will notify."""
        if self._sending:
            self._sending.cancel()

    # --- sending ------------------------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        while self._waiting:
            try:
                await self._send(self._waiting[0])
            except Exception:  # a bug here must not end the job
                log.exception("a notification could not be sent")
            self._waiting.popleft()

    async def _send(self, each: _Notification) -> None:
        from tony.am.http_post import WebhookRejectedError, post  # late: most jobs have no webhook

        assert self._target is not None
        for tries, pause in enumerate(BACKOFF, start=1):
            try:
                await post(self._target, each.body, self._build_headers(each), TRY_TIMEOUT_SECONDS)
            except WebhookRejectedError as error:
                is_late = clock.monotonic() - each.since > DELIVERY_TIMEOUT_SECONDS
                if not error.is_retryable or is_late:
                    often = f" after {tries} tries" if tries > 1 else ""
                    log.warning("%s was not notified that the job %s%s: %s", self._target, each.did, often, error)
                    return
                if tries == 1:
                    log.info("%s could not be notified yet that the job %s: %s", self._target, each.did, error)
            else:
                log.info("%s was notified that the job %s", self._target, each.did)
                return
            await self._wait_for_next_try(pause)

    async def _wait_for_next_try(self, pause: float) -> None:
        if self._ending.is_set():
            await asyncio.sleep(FINISH_PAUSE_SECONDS)
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), pause)

    def _build_headers(self, each: _Notification) -> Mapping[str, str]:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"tony/{tony.__version__}",
            "X-Tony-Event": each.name,
            "X-Tony-Delivery": each.id,
        }
        if self._key:
            moment = str(int(clock.wall()))
            headers |= {"X-Tony-Timestamp": moment, "X-Tony-Signature": sign(self._key, moment, each.body)}
        return headers


def _parse_target(webhook: str | None) -> WebhookTarget | None:
    if webhook is None:
        return None
    from tony.am.http_post import WebhookTarget  # late: most jobs have no webhook

    return WebhookTarget.from_address(webhook)


def sign(key: bytes, moment: str, body: bytes) -> str:
    """Sign a notification with its time: `sha256=<hex>` over `<moment>.<body>`."""
    return f"sha256={hmac.new(key, moment.encode() + b'.' + body, hashlib.sha256).hexdigest()}"


def build_notice(what: str, reason: str, report: JobReport, now: float) -> dict[str, object]:
    """Build the body: the job in short, and one line of text, which chat services show unchanged."""
    failure = report.failure
    restarts = report.restarts
    return {
        "version": VERSION,
        "event": what,
        "at": now,
        "text": _format_text(what, reason, report),
        "reason": _shorten(reason),
        "job": {
            "job": report.job,
            "name": report.name,
            "user": report.user,
            "state": report.state.value,
            "session": report.session,
            "attempt": report.attempt,
            "framework": report.framework,
            "scheduler": report.scheduler,
            "queue": report.queue,
            "tags": list(report.tags),
            "submitted": report.submitted,
            "ended": report.ended,
            "exit_code": report.exit_code,
            "tasks": dict(Counter(task.state.value for task in report.tasks)),
            "restarts": restarts and {"charged": restarts.charged, "most": restarts.most, "free": restarts.free},
            "failure": failure
            and {
                "failure_class": failure.failure_class.value,
                "cause": failure.cause,
                "reason": _shorten(failure.reason),
                "session": failure.session,
                "task": failure.task and str(failure.task),
                "host": failure.host,
                "exit_code": failure.exit_code,
                "signal": failure.signal,
            },
        },
    }


def _format_text(what: str, reason: str, report: JobReport) -> str:
    took = "" if report.took is None else f" after {format_duration(report.took)}"
    why = f": {reason}" if reason and what != "started" else ""
    return _shorten(f"job {report.name} ({report.job}) {what}{took}{why}")


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_REASON_CHARACTERS else f"{text[: _MAX_REASON_CHARACTERS - 1]}…"
