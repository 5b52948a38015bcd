"""The text format of a fault plan: one fault a line; `#` begins a comment, and `seed 42` sets the random seed.

    kill worker:1 after event 17
    kill executor any worker when the job is running + 2s
    stop master when session 2 opens for 5s
    slow worker:0 to 10% when worker:0 started for 30s
    partition executor worker:0 when worker:0 started for 10s
    drop 0.1 of messages of worker:2
    delay reports of worker:1 by 500ms when worker:1 started in session 2
    fill disk of master after event 5
    kill master before the effects of event 9

A line holds the fault and its target, then the moment (default: from the start), then the duration (default: for ever).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.support.faults import plan as fault
from tony.errors import ConfigError, Problem
from tony.model.ids import ROLE_NAME, TaskId
from tony.model.states import JobState
from tony.units import format_exact_duration, parse_duration

_WHEN = re.compile(r" (?=(?:after|when|before|while|amid) )")
_HARMS = "kill, stop, slow, partition, fill disk of, drop, delay, duplicate"
_TRAFFIC = re.compile(
    rf"(?:(\S+) of )?({'|'.join(kind.value for kind in fault.Traffic)}) of (.+?)(?: by (\S+))?", re.IGNORECASE
)
_STEPS = "|".join(step.value for step in fault.TaskMilestone)
_DID = re.compile(rf"when (\S+:\S+) (?:has |is )?({_STEPS})(?: in session (\d+))?")
_STATES = {state.value: state for state in JobState if state not in (JobState.SUBMITTED,)}
_STAGES = [
    (re.compile(stage.value.replace("the effects", "(?:the )?effects").format(r"(\d{1,9})")), stage)
    for stage in fault.EventStage
]
_LARGEST = 10**9


def parse_plan(text: str, source: str = "the plan") -> fault.FaultPlan:
    """Parse a plan; a semicolon separates faults as a new line does.

    Args:
        source: name of its file or setting, for messages.

    Raises:
        ConfigError: with all errors.
    """
    faults, problems, seed = [], [], 0
    for number, line in enumerate(text.splitlines(), start=1):
        for part in line.partition("#")[0].split(";"):
            words = " ".join(part.split())
            try:
                if match := re.fullmatch(r"seed (\d{1,18})", words):
                    seed = int(match[1])
                elif words:
                    faults.append(parse_fault(words))
            except ValueError as error:
                problems.append(Problem(key="", source=f"{source}:{number}", message=f"{words!r:.200}: {error}"))
    if problems:
        raise ConfigError(problems)
    return fault.FaultPlan(faults=tuple(faults), seed=seed)


def parse_fault(text: str) -> fault.PlannedFault:
    """Parse one fault.

    Raises:
        ValueError: with a message that says what to write instead.
    """
    rest, lasts = _split_off(" ".join(text.split()).removesuffix(" for ever"), " for ")
    rest, later = _split_off(rest, " + ")
    what, *when = _WHEN.split(rest, maxsplit=1)
    harm, target = _what(what)
    planned = fault.PlannedFault(
        harm=harm,
        target=target,
        moment=_moment(when[0]) if when else fault.AtStart(),
        later=later or 0.0,
        lasts=lasts,
    )
    _check(planned)
    return planned


def write_plan(plan: fault.FaultPlan) -> str:
    """Return the text that `parse_plan` parses into this plan."""
    lines = [format_fault(planned) for planned in plan.faults]
    return "".join(f"{line}\n" for line in ([f"seed {plan.seed}"] if plan.seed else []) + lines)


def format_fault(planned: fault.PlannedFault) -> str:
    """Return the text that `parse_fault` parses into this fault."""
    words = [_harm_text(planned.harm, planned.target), _moment_text(planned.moment)]
    if planned.later:
        words.append(f"+ {format_exact_duration(planned.later)}")
    if planned.lasts is not None:
        words.append(f"for {format_exact_duration(planned.lasts)}")
    return " ".join(word for word in words if word)


# --- reading ------------------------------------------------------------------------------------------------------


def _split_off(text: str, sign: str) -> tuple[str, float | None]:
    """Split a duration off the end."""
    before, found, duration = text.rpartition(sign)
    return (before, parse_duration(duration)) if found else (text, None)


def _what(text: str) -> tuple[fault.Harm, fault.FaultTarget]:
    verb, _, rest = text.partition(" ")
    match verb:
        case "kill":
            return fault.Kill(), _target(rest)
        case "stop":
            return fault.Stop(), _target(rest)
        case "slow":
            who, found, share = rest.rpartition(" to ")
            if not found:
                raise ValueError("add the share of the time that it may run: slow worker:1 to 10%.")
            return fault.Slow(share=_share(share)), _target(who)
        case "partition":
            return fault.Partition(), _target(rest, usual=fault.ProcessKind.EXECUTOR)
        case "fill":
            if not rest.startswith("disk of "):
                raise ValueError("add the target: fill disk of master.")
            return fault.FillDisk(), _target(rest.removeprefix("disk of "))
        case "drop" | "delay" | "duplicate":
            return _traffic(verb, rest)
    raise ValueError(f"{verb!r:.40} is not a fault; use one of {_HARMS}.")


def _traffic(verb: str, text: str) -> tuple[fault.Harm, fault.FaultTarget]:
    match = _TRAFFIC.fullmatch(text)
    if not match:
        kinds = ", ".join(kind.value for kind in fault.Traffic)
        raise ValueError(f"name one of {kinds}, and a target: {verb} 0.1 of messages of worker:2.")
    share = 1.0 if match[1] is None else _share(match[1])
    traffic, target = fault.Traffic(match[2]), _target(match[3], usual=fault.ProcessKind.EXECUTOR)
    if (match[4] is not None) != (verb == "delay"):
        raise ValueError("a delay, and no other fault, needs a duration: delay messages of worker:2 by 500ms.")
    if verb == "delay":
        return fault.Delay(seconds=parse_duration(match[4]), share=share, traffic=traffic), target
    kind = fault.Drop if verb == "drop" else fault.Duplicate
    return kind(share=share, traffic=traffic), target


def _share(text: str) -> float:
    percent = text.endswith("%")
    try:
        share = float(text.removesuffix("%")) / (100 if percent else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(f"{text!r:.40} is not a share between 0 and 1; write 10% or 0.1.")
    return share


def _target(text: str, usual: fault.ProcessKind = fault.ProcessKind.PROGRAM) -> fault.FaultTarget:
    text = text.removeprefix("the ")
    for part in fault.ProcessKind:
        if text == part.value and part not in fault.OF_TASKS:
            return fault.FaultTarget(part=part)
        if part in fault.OF_TASKS and text.startswith(f"{part.value} "):
            return _of_task(part, text.removeprefix(f"{part.value} ").removeprefix("of "))
    return _of_task(usual, text)


def _of_task(part: fault.ProcessKind, text: str) -> fault.FaultTarget:
    word, _, role = text.partition(" ")
    if word == "any" and (role == "task" or ROLE_NAME.fullmatch(role)):
        return fault.FaultTarget(part=part, any_of="" if role == "task" else role)
    try:
        return fault.FaultTarget(part=part, task=TaskId.parse(text))
    except ValueError:
        raise ValueError(
            f"{text!r:.80} is not a target; use worker:1 (its program), executor worker:1, "
            "watchdog worker:1, any worker, any task, master, supervisor, fork server."
        ) from None


def _moment(text: str) -> fault.Moment:
    for form, stage in _STAGES:
        if match := form.fullmatch(text):
            return fault.Within(seq=_number(match[1]), stage=stage)
    if match := re.fullmatch(r"after event (\d{1,9})", text):
        return fault.AfterEvent(seq=_number(match[1]))
    if match := re.fullmatch(r"after (\d\S*)", text):
        return fault.AfterTime(seconds=parse_duration(match[1]))
    if match := re.fullmatch(r"when session (\d{1,9}) opens", text):
        return fault.SessionOpens(session=_number(match[1]))
    if match := re.fullmatch(r"when (?:the )?job is (\S+)", text):
        if match[1] not in _STATES:
            raise ValueError(f"{match[1]!r:.40} is not a job state; use one of {', '.join(_STATES)}.")
        return fault.JobIs(state=_STATES[match[1]])
    if match := _DID.fullmatch(text):
        session = None if match[3] is None else _number(match[3])
        return fault.TaskDid(task=TaskId.parse(match[1]), step=fault.TaskMilestone(match[2]), session=session)
    raise ValueError(
        f"{text!r:.80} is not a moment; use after event 17, after 5s, when session 2 opens, when the job is "
        f"running, when worker:2 {_STEPS.replace('|', ' or ')} (in session 2), before event 17 is logged, while event "
        "17 is logged, before the effects of event 17, amid the effects of event 17; each may be followed by + 2s."
    )


def _number(text: str) -> int:
    number = int(text)
    if not 0 < number < _LARGEST:
        raise ValueError(f"{text} is out of range; events and sessions count from 1.")
    return number


def _check(planned: fault.PlannedFault) -> None:
    """Check that fault, target and moment fit together."""
    harm, target, moment = planned.harm, planned.target, planned.moment
    if isinstance(harm, fault.Kill) and planned.lasts is not None:
        raise ValueError("a kill cannot be undone: remove the duration.")
    if isinstance(harm, fault.ON_THE_WAY) and target.part is not fault.ProcessKind.EXECUTOR:
        raise ValueError(f"{who(target)} has no messages to an AM; name an executor.")
    if isinstance(moment, fault.Within):
        if target.part is not fault.ProcessKind.MASTER or not isinstance(harm, fault.Kill | fault.FillDisk):
            raise ValueError("while an event is handled, only 'kill master' and 'fill disk of master' are possible.")
        if planned.later:
            raise ValueError("a moment while an event is handled takes no delay: remove it.")


# --- writing ------------------------------------------------------------------------------------------------------


def who(target: fault.FaultTarget) -> str:
    """Return the text of a target."""
    if target.task is None and target.any_of is None:
        return target.part.value
    whose = str(target.task) if target.task else f"any {target.any_of or 'task'}"
    return whose if target.part is fault.ProcessKind.PROGRAM else f"{target.part.value} {whose}"


def _harm_text(harm: fault.Harm, target: fault.FaultTarget) -> str:
    match harm:
        case fault.Slow(share=share):
            return f"slow {who(target)} to {share!r}"
        case fault.FillDisk():
            return f"fill disk of {who(target)}"
        case fault.Drop(share=share, traffic=traffic) | fault.Delay(share=share, traffic=traffic):
            verb, by = (
                ("drop", "")
                if isinstance(harm, fault.Drop)
                else ("delay", f" by {format_exact_duration(harm.seconds)}")
            )
            return f"{verb} {_share_text(share)}{traffic.value} of {who(target)}{by}"
        case fault.Duplicate(share=share, traffic=traffic):
            return f"duplicate {_share_text(share)}{traffic.value} of {who(target)}"
    return f"{type(harm).__name__.lower()} {who(target)}"


def _share_text(share: float) -> str:
    return "" if share == 1 else f"{share!r} of "


def _moment_text(moment: fault.Moment) -> str:
    match moment:
        case fault.AtStart():
            return ""
        case fault.AfterTime(seconds=seconds):
            return f"after {format_exact_duration(seconds)}"
        case fault.AfterEvent(seq=seq):
            return f"after event {seq}"
        case fault.Within(seq=seq, stage=stage):
            return stage.value.format(seq)
        case fault.SessionOpens(session=session):
            return f"when session {session} opens"
        case fault.TaskDid(task=task, step=step, session=session):
            return f"when {task} {step.value}" + (f" in session {session}" if session else "")
        case fault.JobIs(state=state):
            return f"when the job is {state.value}"


__all__: Sequence[str] = ("format_fault", "parse_fault", "parse_plan", "who", "write_plan")
