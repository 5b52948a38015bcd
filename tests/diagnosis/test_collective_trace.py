"""Which task has not joined a collective operation, from what PyTorch has recorded of each."""

from __future__ import annotations

import json

import pytest

from tony.diagnosis.collective_trace import TRACE_PREFIX, LateTask, ProcessTrace, find_late_task, parse_traces
from tony.diagnosis.stack_groups import TaskStack, WaitPoint, find_collective_evidence, find_odd_task, waits_for_others
from tony.model.ids import TaskId

DEFAULT = ("4:2a3070ce:0", "default_pg")
PAIR = ("2:61c9e7ff:1", "1")
Call = tuple[int, str, str, bool]


def group(kind: tuple[str, str], *calls: Call, last: int | None = 0) -> dict[str, object]:
    return {"id": kind[0], "label": kind[1], "size": 4, "last": calls[-1][0] if calls else last, "calls": calls}


def done(number: int) -> Call:
    return (number, "all_reduce", "Float [1024]", True)


def waits(number: int, name: str = "all_reduce", shape: str = "Float [1024]") -> Call:
    return (number, name, shape, False)


def line(rank: int, *groups: dict[str, object]) -> str:
    return f"{TRACE_PREFIX}{json.dumps({'rank': rank, 'groups': groups})}\n"


def find(*texts: str) -> LateTask | None:
    traces = {TaskId("worker", index): parse_traces(text) for index, text in enumerate(texts)}
    return find_late_task(traces)


def of_default(*calls: Call) -> str:
    return line(0, group(DEFAULT, *calls))


def test_the_task_that_has_not_joined() -> None:
    late = of_default(done(203))
    others = of_default(done(203), waits(204))
    assert find(others, late, others) == LateTask(
        TaskId("worker", 1),
        "worker:1 has not joined all_reduce #204 (Float [1024]) of the default group after all_reduce #203",
    )


def test_before_the_first_operation_and_several_tasks() -> None:
    late, others = of_default(), of_default(waits(1, "barrier", ""))
    assert find(others, late, late) == LateTask(
        TaskId("worker", 1), "worker:1 and 1 more have not joined barrier #1 of the default group"
    )


def test_operations_that_were_started_ahead() -> None:
    """Asynchronous ones: the others have started several; the source of a broadcast may be done with it."""
    ahead = of_default(done(4), waits(5), waits(6), waits(7))
    source = of_default(done(5), waits(6))
    assert find(ahead, source, of_default(done(4))) == LateTask(
        TaskId("worker", 2),
        "worker:2 has not joined all_reduce #5 (Float [1024]) of the default group after all_reduce #4",
    )


def test_a_task_that_waits_in_another_group_is_not_the_cause() -> None:
    """worker:1 and 2 are a pair; 1 waits there for 2, and 0 and 3 wait for both of them."""
    others = line(0, group(DEFAULT, done(19), waits(20)))
    waiting = line(1, group(DEFAULT, done(19)), group(PAIR, waits(1, "broadcast", "Float [16]")))
    late = line(2, group(DEFAULT, done(19)), group(PAIR))
    found = find(others, waiting, late, others)
    assert found
    assert found.task == TaskId("worker", 2)
    assert "has not joined" in found.sentence


@pytest.mark.parametrize(
    ("odd", "text"),
    [
        (
            waits(20, "broadcast", "Float [8]"),
            "broadcast (Float [8]) of worker:1, all_reduce (Float [1024]) of 2 others",
        ),
        (
            waits(20, "all_reduce", "Float [8]"),
            "all_reduce (Float [8]) of worker:1, all_reduce (Float [1024]) of 2 others",
        ),
    ],
)
def test_an_operation_that_differs(odd: Call, text: str) -> None:
    usual = of_default(done(19), waits(20))
    sentence = f"operation #20 of the default group differs: {text}"
    assert find(usual, of_default(done(19), odd), usual) == LateTask(TaskId("worker", 1), sentence)


def test_of_two_that_differ_either_may_be_wrong() -> None:
    found = find(of_default(waits(1)), of_default(waits(1, "barrier", "")))
    assert found
    assert found.task is None
    assert found.sentence.endswith("barrier of worker:1, all_reduce (Float [1024]) of worker:0")


@pytest.mark.parametrize(
    "texts",
    [
        (of_default(done(3)), of_default(done(3))),
        (of_default(waits(3)), of_default(waits(3))),
        (of_default(waits(3, "all_gather", "Float [3]")), of_default(waits(3, "all_gather", "Float [4]"))),
        (of_default(waits(3)), line(1, group(DEFAULT, last=None))),
        (of_default(waits(3)), ""),
    ],
    ids=["none waits", "all wait", "tensors may differ", "its record has overflowed", "no record"],
)
def test_no_task_is_late(texts: tuple[str, ...]) -> None:
    assert find(*texts) is None


def test_one_of_several_processes_of_a_task() -> None:
    traces = {
        TaskId("worker", 0): parse_traces(line(0, group(DEFAULT, waits(1))) + line(1, group(DEFAULT, waits(1)))),
        TaskId("worker", 1): parse_traces(line(2, group(DEFAULT, waits(1))) + line(3, group(DEFAULT))),
    }
    found = find_late_task(traces)
    assert found
    assert found.sentence.startswith("worker:1 (rank 3) has not joined all_reduce #1")


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "null", "[" * 100_000, '{"rank": 1}', '{"rank": -1, "groups": []}', '{"rank": 1, "groups": [1]}',
        '{"rank": 1, "groups": {"a": 1}}', '{"rank": 1e999, "groups": []}',
        '{"rank": 1, "groups": [{"id": 1, "label": 2, "last": true, "calls": []}]}',
        '{"rank": 1, "groups": [{"id": 1, "label": 2, "last": 3, "calls": [[1, 2]]}]}',
    ],
)  # fmt: skip
def test_invalid_lines_are_ignored(text: str) -> None:
    assert parse_traces(f"{TRACE_PREFIX}{text}\n") == []


def test_a_program_cannot_send_too_much() -> None:
    many = line(1, *(group((str(number), "x" * 1000), *(done(i) for i in range(9))) for number in range(40))) * 100
    found: list[ProcessTrace] = list(parse_traces(many))
    assert found == []  # longer than a line may be
    few = line(1, *(group((str(number), "x" * 200), done(1)) for number in range(40))) * 100
    found = list(parse_traces(few))
    assert len(found) == 64
    assert all(len(each.label) <= 110 for trace in found for each in trace.groups)


def test_the_record_takes_precedence_over_the_stack_traces() -> None:
    """All wait at the same line of the program: only the record shows that one is an operation behind."""
    point = WaitPoint("all_reduce", "/job/train.py", 90, is_collective=True)
    texts = [of_default(done(19), waits(20)), of_default(done(19)), of_default(done(19), waits(20))]
    stacks = [
        TaskStack(task=TaskId("worker", index), point=point, step=19, collectives=find_collective_evidence(text))
        for index, text in enumerate(texts)
    ]
    odd = find_odd_task(stacks)
    assert (odd.task, odd.frame) == (TaskId("worker", 1), "all_reduce at train.py:90")
    assert odd.sentence == (
        "worker:1 has not joined all_reduce #20 (Float [1024]) of the default group after all_reduce #19; "
        "worker:1 (last step 19) is in all_reduce at train.py:90; the other 2 are in all_reduce at train.py:90"
    )
    assert waits_for_others([TaskStack(task=TaskId("worker", 0), collectives=find_collective_evidence(texts[0]))])
    assert not waits_for_others([TaskStack(task=TaskId("worker", 1), collectives=find_collective_evidence(texts[1]))])
