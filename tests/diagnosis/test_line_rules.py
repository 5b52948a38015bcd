"""Rules of a job or site for lines of output."""

from __future__ import annotations

from itertools import count

from tony.diagnosis.evidence_selection import select_evidence
from tony.diagnosis.failure_diagnosis import diagnose
from tony.diagnosis.line_rules import LineRules
from tony.diagnosis.output_scanner import OutputScanner
from tony.model.diagnosis import EvidenceLine, FailureKind, LineMeaning
from tony.model.failure import FailureCause
from tony.model.own_rule import OwnRule
from tony.model.program_exit import ExitReason, ExitStatus
from tony.model.setting_choices import RuleMeaning

GONE = OwnRule(name="tape", pattern="TAPE-[0-9]+ left us", kind=FailureKind.STORAGE, retry=True, advice="call Ann")
PEER = OwnRule(name="peer", pattern="partner left us", kind=FailureKind.NETWORK, meaning=RuleMeaning.CONSEQUENCE)
TRACEBACK = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    f()\nValueError: x\n'


def scan(text: str, *own: OwnRule) -> tuple[EvidenceLine, ...]:
    scanner = OutputScanner("out", LineRules(own))
    scanner.feed(text.encode(), 1.0)
    return select_evidence([scanner], 1.5, has_exited=True)


def test_a_line_without_any_usual_word_is_found() -> None:
    (line,) = scan("epoch 1\n" * 1000 + "Tape-7 said nothing\nTAPE-7 left us\n" + "epoch 2\n", GONE)
    assert (line.number, line.text, line.rule) == (1002, "TAPE-7 left us", "diagnosis.rules.tape")


def test_a_line_of_the_job_is_decisive_before_those_of_tony() -> None:
    lines = scan(f"{TRACEBACK}TAPE-7 left us\n", GONE)
    assert [line.rule for line in lines] == ["diagnosis.rules.tape", "python-code"]


def test_a_rule_of_the_job_goes_ahead_on_the_same_line() -> None:
    own = OwnRule(name="ours", pattern="No space left", kind=FailureKind.QUOTA)
    assert scan("OSError: [Errno 28] No space left on device\n", own)[0].rule == "diagnosis.rules.ours"


def test_the_failure_is_what_the_rule_says() -> None:
    status = ExitStatus(reason=ExitReason.EXITED, code=1, evidence=scan("TAPE-7 left us\n", GONE))
    found = diagnose(FailureCause.PROGRAM, status, own=(PEER, GONE))
    assert (found.kind, found.meaning, found.retry) == (FailureKind.STORAGE, LineMeaning.CAUSE, True)
    assert found.advice == "call Ann"
    assert diagnose(FailureCause.PROGRAM, status).kind is FailureKind.USER_CODE  # of another job


def test_a_consequence_is_one() -> None:
    status = ExitStatus(reason=ExitReason.EXITED, code=1, evidence=scan("partner left us\n", PEER))
    assert diagnose(FailureCause.PROGRAM, status, own=(PEER,)).is_consequence


def test_only_the_beginning_of_a_line_is_searched() -> None:
    assert scan("x" * 600 + "TAPE-7 left us\n", GONE) == ()


def test_a_rule_that_takes_too_long_is_dropped() -> None:
    clock = count(step=0.4)
    rules = LineRules([GONE, PEER], lambda: next(clock))
    for _ in range(5):
        rules.find("a line left us")
    assert sorted(rules.dropped) == ["diagnosis.rules.peer", "diagnosis.rules.tape"]
    assert rules.find("TAPE-7 left us") is None
