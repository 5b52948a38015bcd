"""The kind of a failure follows from its cause, its output or its exit."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tony.diagnosis.evidence_selection import select_evidence
from tony.diagnosis.failure_diagnosis import diagnose
from tony.diagnosis.output_scanner import OutputScanner
from tony.model.diagnosis import EvidenceLine
from tony.model.failure import FailureCause
from tony.model.program_exit import ExitReason, ExitStatus

#: What they are and where their labels come from, the file tells.
EVERYDAY: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("everyday.toml").read_text("utf-8"))["text"]


def exit_with(
    code: int | None,
    *,
    signal: str | None = None,
    rule: str = "",
    text: str = "x",
    duration: float = 1.0,
    step: float | None = None,
) -> ExitStatus:
    line = EvidenceLine(stream="err", number=1, text=text, ago=0.0, rule=rule)
    evidence = (line,) if rule else ()
    reason = ExitReason.EXITED
    return ExitStatus(reason=reason, code=code, signal=signal, evidence=evidence, duration=duration, step=step)


@pytest.mark.parametrize(
    ("status", "kind", "retry"),
    [
        (exit_with(1), "user-code", True),
        (exit_with(127), "launch", False),
        (exit_with(127, rule="last-line"), "launch", False),
        (exit_with(127, rule="shell-code"), "user-code", False),
        (exit_with(124), "timeout", True),
        (exit_with(None, signal="SIGXCPU"), "quota", False),
        (exit_with(152), "quota", False),
        (exit_with(1, rule="disk-full"), "storage", False),
        (exit_with(143), "killed", True),
        (exit_with(143, rule="last-line"), "killed", True),
        (exit_with(None, signal="SIGKILL"), "killed", True),
        (exit_with(None, signal="SIGFPE"), "user-code", False),
        (exit_with(1, rule="python-exception"), "user-code", False),
        (exit_with(1, rule="python-exception", step=3.0), "user-code", True),
        (exit_with(1, rule="python-exception", duration=90.0), "user-code", True),
        (exit_with(1, rule="python-exception", text="RuntimeError: cannot connect to db"), "network", True),
        (exit_with(1, rule="script-error", text="error: unexpected EOF"), "user-data", False),
        (exit_with(1, rule="script-error", text="error: unexpected EOF", step=3.0), "user-data", False),
        (exit_with(1, rule="script-error", text="error: GPU unavailable", step=3.0), "accelerator", True),
        (exit_with(1, rule="script-error", text="error: out of memory", step=3.0), "memory", False),
        (exit_with(1, rule="script-error", text="error: token has expired", step=3.0), "permission", False),
    ],
)
def test_an_exit(status: ExitStatus, kind: str, retry: bool) -> None:
    found = diagnose(FailureCause.PROGRAM, status)
    assert (found.kind, found.retry) == (kind, retry)


@pytest.mark.parametrize(
    ("text", "kind", "retry"),
    [
        ("CredentialRetrievalError: Error when retrieving credentials from iam-role: timed out", "timeout", True),
        ("google.auth.exceptions.RefreshError: Failed to retrieve access token: 503", "network", True),
        ("openai.RateLimitError: Error code: 429 - rate limit reached for api key", "network", True),
        ("sky.Error: Failed to fetch s3://a: 403 Forbidden", "permission", False),
        ("OperationalError: connection to db failed: password authentication failed", "permission", False),
        ("HubError: invalid api key, check it and try again", "permission", False),
        ("ssl.SSLEOFError: EOF occurred in violation of protocol (_ssl.c:2427)", "network", True),
        ("kazoo.exceptions.ConnectionLoss", "network", True),
        ("RuntimeError: GPU unavailable", "accelerator", False),
        ("RuntimeError: worker pool size must be positive", "user-code", False),
        ("RuntimeError: temporary folder /tmp/x is empty", "user-data", False),
        ("RuntimeError: channel 3 normalization failed", "user-code", False),
        ("RuntimeError: neural network initialization failed", "user-code", False),
    ],
)
def test_the_words_of_an_exception(text: str, kind: str, retry: bool) -> None:
    scanner = OutputScanner("err")
    scanner.feed(f"Traceback (most recent call last):\n  x()\n{text}\n".encode(), 0.0)
    (line,) = select_evidence([scanner], 1.0)
    found = diagnose(FailureCause.PROGRAM, exit_with(1, rule=line.rule, text=line.text))
    assert (line.text, found.kind, found.retry) == (text, kind, retry)


@pytest.mark.parametrize(
    ("cause", "rule", "kind", "retry"),
    [
        ("job-timeout", "", "timeout", False),
        ("execution-timeout", "", "timeout", True),
        ("port-collision", "address-in-use", "rendezvous", True),
        ("port-collision", "address-taken", "network", True),
        ("memory", "python-code", "memory", True),
    ],
)
def test_a_cause(cause: str, rule: str, kind: str, retry: bool) -> None:
    found = diagnose(FailureCause(cause), exit_with(1, rule=rule))
    assert (found.kind, found.retry) == (kind, retry)


@pytest.mark.parametrize("cause", [cause for cause in FailureCause if cause is not FailureCause.KILLED])
def test_every_failure_comes_with_advice(cause: FailureCause) -> None:
    """Also where no line of output and no exit code says more; a user who stopped a job needs none."""
    assert diagnose(cause, None).advice


def test_an_error_of_the_program_leads_to_its_line() -> None:
    line = EvidenceLine(
        stream="err", number=5, text="KeyError: 'a'", ago=0.0, rule="python-code", code_place="train.py:4 in load: r[a]"
    )
    found = diagnose(FailureCause.PROGRAM, ExitStatus(reason=ExitReason.EXITED, code=1, evidence=(line,)))
    assert "train.py:4 in load" in found.advice
    assert "r[a]" not in found.advice


@pytest.mark.parametrize("case", EVERYDAY, ids=[case["name"] for case in EVERYDAY])
def test_an_everyday_failure(case: dict[str, Any]) -> None:
    """Its kind, the decisive line and whether a retry can help are as the labels say."""
    scanner = OutputScanner("err")
    scanner.feed(case["output"].encode(), 0.0)
    signal = case.get("signal")
    evidence = select_evidence([scanner], 0.0, has_exited=signal is None)
    status = ExitStatus(
        reason=ExitReason.EXITED,
        code=case.get("exit_code"),
        signal=signal,
        evidence=evidence,
        duration=case["seconds"],
        step=case.get("step"),
    )
    found = diagnose(FailureCause.PROGRAM, status)
    judged = {
        "class": found.kind.value in case["class"],
        "line": case["line"] in (evidence[0].text if evidence else ""),
        "retry": found.retry == case.get("retry", found.retry),
    }
    assert [name for name, is_right in judged.items() if not is_right] == case.get("wrong", [])
