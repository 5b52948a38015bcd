"""Which task the others wait for, from stack traces as the tools write them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.facts import mentions
from tony.diagnosis.parked_threads import ParkedThread
from tony.diagnosis.stack_groups import (
    SOURCE_MARK,
    TaskStack,
    WaitPoint,
    describe_lone_task,
    find_odd_task,
    find_odd_task_early,
    find_wait_point,
    has_waited,
    mark_native_waits,
    waits_for_others,
)
from tony.model.ids import TaskId

FAULTHANDLER = """=== process 3905: /usr/bin/python3 train.py
Thread 0x00007f1e6c9fe700 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "/home/ann/loader.py", line 9 in fetch
  File "/home/ann/loader.py", line 12 in run
  File "/usr/lib/python3.11/threading.py", line 1038 in _bootstrap_inner
  File "/usr/lib/python3.11/threading.py", line 995 in _bootstrap

Current thread 0x00007f1e7e297040 (most recent call first):
  File "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", line 1541 in all_reduce
  File "/usr/lib/python3/dist-packages/torch/distributed/c10d_logger.py", line 72 in wrapper
  File "/job/train.py", line 90 in exchange
  File "/job/train.py", line 99 in <module>
"""
SPY = """=== process 12: python train.py
Process 12: python train.py
Python v3.12.3 (/opt/venv/bin/python3.12)

Thread 12 (idle): "MainThread"
    get (queue.py:171)
    next_batch (/job/train (copy).py:88)
    <module> (/job/train.py:99)
Thread 14 (idle): "Thread-1 (fetch)"
    wait (threading.py:355)
    fetch (/job/a.py:1)
    run (/usr/lib/python3.12/threading.py:1010)
    _bootstrap_inner (/usr/lib/python3.12/threading.py:1073)
    _bootstrap (/usr/lib/python3.12/threading.py:1030)
"""
LAUNCHER = """=== process 11: /usr/bin/python3 /usr/bin/torchrun train.py
Current thread 0x0001 (most recent call first):
  File "/usr/lib/python3/dist-packages/torch/elastic/agent.py", line 5 in run
  File "/usr/bin/torchrun", line 8 in <module>
=== process 12: python train.py
Current thread 0x0002 (most recent call first):
  File "/job/train.py", line 88 in load
  File "/job/train.py", line 99 in <module>
"""
CRASHED = """=== process 12: python train.py
Process 12: python train.py
Python v3.12.3 (/opt/venv/bin/python3.12)

Thread 12 (idle): "MainThread"
    _shutdown (/usr/lib/python3.12/threading.py:1624)
Thread 14 (idle): "Thread-1 (fetch)"
    fetch (/job/a.py:1)
    run (/usr/lib/python3.12/threading.py:1010)
    _bootstrap (/usr/lib/python3.12/threading.py:1030)
"""
#: Of a task in `float(strategy.reduce(...))`, by py-spy; in the second one in `next(iterator)`.
TENSORFLOW = """Thread 30369 (idle): "MainThread"
    quick_execute (/v/lib/python3.11/site-packages/tensorflow/python/eager/execute.py:53)
    Context.call_function (/v/lib/python3.11/site-packages/tensorflow/python/eager/context.py:1688)
    Function.__call__ (/v/lib/python3.11/site-packages/tensorflow/python/eager/polymorphic_function.py:833)
    exchange (/job/x.py:12)
"""
TENSORFLOW_INPUT = """Thread 30369 (idle): "MainThread"
    quick_execute (/v/lib/python3.11/site-packages/tensorflow/python/eager/execute.py:53)
    OwnedIterator._next_internal (/v/lib/python3.11/site-packages/tensorflow/python/data/ops/iterator_ops.py:778)
    batches (/job/x.py:12)
"""
JAX = """Thread 30369 (idle): "MainThread"
    ArrayImpl.block_until_ready (/v/lib/python3.11/site-packages/jax/_src/array.py:591)
    exchange (/job/x.py:12)
"""
BARRIER = WaitPoint("all_reduce", "/job/train.py", 90, is_collective=True)
RECV = WaitPoint("recv", "/job/train.py", 88)


@pytest.mark.parametrize(
    ("text", "where", "is_collective"),
    [
        (FAULTHANDLER, "all_reduce at train.py:90", True),
        (SPY, "get at train (copy).py:88", False),
        (LAUNCHER, "load at train.py:88", False),
        (TENSORFLOW, "Context.call_function at x.py:12", True),
        (TENSORFLOW_INPUT, "OwnedIterator._next_internal at x.py:12", False),
        (JAX, "ArrayImpl.block_until_ready at x.py:12", True),
    ],
)
def test_a_wait_point_names_the_call_of_user_code(text: str, where: str, is_collective: bool) -> None:
    point = find_wait_point(text.replace("(queue.py", "(/usr/lib/python3.12/queue.py"))
    assert point
    assert (str(point), point.is_collective) == (where, is_collective)


@pytest.mark.parametrize(
    ("text", "frame", "where"),
    [
        (FAULTHANDLER, '  File "/job/train.py", line 90 in exchange', "all_reduce at train.py:90"),
        (SPY, "    next_batch (/job/train (copy).py:88)", "get at train (copy).py:88"),
    ],
)
def test_a_wait_point_has_the_line_of_user_code_below_its_frame(text: str, frame: str, where: str) -> None:
    """Also if that looks like a frame."""
    source = "lock (queue.py:3)"
    dump = text.replace("(queue.py", "(/usr/lib/python3.12/queue.py").replace(frame, f"{frame}\n{SOURCE_MARK}{source}")
    point = find_wait_point(dump)
    assert str(point) == f"{where}: {source}"
    assert str(find_odd_task([stack(0, point)]).frame) == str(point)


@pytest.mark.parametrize("text", ["", "=== process 7: ./a.out\nfutex_wait_queue\n", "Thread 1 (idle)\n", "\x00" * 50])
def test_without_user_code_nothing_is_known(text: str) -> None:
    assert find_wait_point(text) is None


def stack(index: int, point: WaitPoint | None = None, step: float | None = None, *, ended: bool = False) -> TaskStack:
    return TaskStack(task=TaskId("worker", index), point=point, step=step, has_ended=ended)


def test_the_one_outside_the_collective_operation_is_named() -> None:
    odd = find_odd_task([stack(0, BARRIER, 1205), stack(1, RECV, 1204), stack(2, BARRIER), stack(3, BARRIER)])
    assert (odd.task, odd.frame) == (TaskId("worker", 1), "recv at train.py:88")
    assert odd.sentence == (
        "worker:1 (last step 1,204) is in recv at train.py:88; the other 3 are in all_reduce at train.py:90"
    )


def test_it_is_named_although_most_are_outside() -> None:
    odd = find_odd_task([stack(0, BARRIER), stack(1, RECV, 7), stack(2, RECV, 6)])
    assert odd.task == TaskId("worker", 2)


def test_otherwise_the_one_that_differs_from_most_is_named() -> None:
    other = WaitPoint("join", "/job/train.py", 5)
    odd = find_odd_task([stack(0, RECV), stack(1, RECV), stack(2, other)])
    assert odd.sentence == "worker:2 is in join at train.py:5; the other 2 are in recv at train.py:88"


def test_the_lines_of_a_loop_that_polls_count_as_one_place() -> None:
    """One task is in the condition of the loop, the other one in its body."""
    main = 'Thread 7 (idle): "MainThread"\n'
    condition = find_wait_point(
        f"{main}    <genexpr> (/job/x.py:9)\n    join (/job/x.py:9)\n    <module> (/job/x.py:20)\n"
    )
    body = find_wait_point(f"{main}    join (/job/x.py:10)\n    <module> (/job/x.py:20)\n")
    load = find_wait_point(f"{main}    load (/job/x.py:13)\n    <module> (/job/x.py:18)\n")
    assert find_odd_task([stack(0, condition, 19), stack(1, load, 19), stack(2, body, 19)]).task == TaskId("worker", 1)


def test_otherwise_the_one_that_has_ended_is_named() -> None:
    odd = find_odd_task([stack(0, BARRIER, 9), stack(1, None, 9, ended=True)])
    assert odd.sentence == "worker:1 (last step 9) has ended; worker:0 is in all_reduce at train.py:90"


def test_otherwise_the_one_with_the_lowest_step_is_named() -> None:
    assert find_odd_task([stack(0, BARRIER, 9), stack(1, BARRIER, 8)]).task == TaskId("worker", 1)
    assert find_odd_task([stack(0, None, 9), stack(1, None, 8)]).sentence == "worker:1 (last step 8) is behind"


def test_none_is_named_where_nothing_tells_them_apart() -> None:
    assert find_odd_task([stack(0, BARRIER, 9), stack(1, BARRIER, 9)]).sentence == (
        "all 2 tasks are in all_reduce at train.py:90"
    )
    odd = find_odd_task([stack(0), stack(1)])
    assert (odd.task, odd.sentence) == (None, "no stack traces of its programs are known")
    lone = find_odd_task([stack(0, RECV)])
    assert lone.sentence == "worker:0 is in recv at train.py:88"


def test_a_program_that_has_ended_while_threads_keep_it_running_is_named_first() -> None:
    point = find_wait_point(CRASHED)
    assert point
    assert point.is_exiting
    tasks = [TaskStack(task=TaskId("worker", 0), point=BARRIER), TaskStack(task=TaskId("worker", 1), point=RECV)]
    found = find_odd_task([TaskStack(task=TaskId("chief", 0), point=point, step=20), *tasks])
    assert (found.task, found.frame) == (TaskId("chief", 0), "_shutdown at threading.py:1624")
    assert mentions(found.sentence, "chief:0", 20, "has ended", "_shutdown")


def test_a_lone_task_is_described_with_those_that_continue() -> None:
    lone = describe_lone_task(TaskStack(task=TaskId("worker", 1), point=RECV, step=60), 3)
    assert (lone.task, lone.frame) == (TaskId("worker", 1), "recv at train.py:88")
    assert mentions(lone.sentence, "worker:1", 60, "recv at train.py:88", "3 other tasks")
    assert mentions(describe_lone_task(TaskStack(task=TaskId("worker", 1)), 1).sentence, "worker:1", "another task")


def test_a_collective_operation_proves_that_tasks_wait_for_others() -> None:
    tasks = [TaskStack(task=TaskId("worker", 0), point=RECV), TaskStack(task=TaskId("worker", 1))]
    assert not waits_for_others(tasks)
    assert waits_for_others([*tasks, TaskStack(task=TaskId("worker", 2), point=BARRIER)])


def test_nothing_is_proved_if_a_process_was_not_dumped() -> None:
    text = """=== process 5: python x.py
main thread in sleep (3 waits before, 3 after)
Current thread 0x01 (most recent call first):
  File "/job/x.py", line 3 in load
"""
    point, other = find_wait_point(text), find_wait_point(f"{text}=== and 3 more processes\n")
    assert point
    assert point.parked == ParkedThread(3, 3)
    assert other == replace(point, parked=None)
    assert find_wait_point(f"=== NCCL RAS, from process 5\nJob summary\n\n{text}") == point


USER_BARRIER = """=== process 5: python x.py
main thread in recvfrom (3 waits before, 3 after)
Thread 5 (idle): "MainThread"
    Group.barrier (/job/x.py:21)
    <module> (/job/x.py:37)
"""


def test_a_function_of_the_user_is_a_barrier_by_its_name() -> None:
    point = find_wait_point(USER_BARRIER)
    assert point
    assert point.is_collective
    other = find_wait_point(USER_BARRIER.replace("barrier", "fetch"))
    assert other
    assert not other.is_collective


def asleep(index: int, role: str = "worker") -> TaskStack:
    point = WaitPoint("load", "/job/train.py", 7, parked=ParkedThread(3, 4))
    return TaskStack(task=TaskId(role, index), point=point)


def test_one_that_sleeps_while_others_wait_for_it_is_named_early() -> None:
    found = find_odd_task_early([stack(0, BARRIER), asleep(1), asleep(0, "tensorboard"), stack(2, BARRIER)])
    assert found
    assert found.sentence == "worker:1 is in load at train.py:7; the other 2 are in all_reduce at train.py:90"


def test_one_that_has_ended_is_named_early_if_others_wait_for_it() -> None:
    found = find_odd_task_early([stack(0, BARRIER), stack(1, ended=True)])
    assert found
    assert found.task == TaskId("worker", 1)
    on_device = replace(BARRIER, is_device_wait=True)
    assert find_odd_task_early([stack(0, on_device), stack(1, ended=True)]) is None


NATIVE = replace(RECV, parked=ParkedThread(3, 3, is_native=True))


@pytest.mark.parametrize(
    "tasks",
    [
        pytest.param([stack(0, BARRIER), stack(1, RECV)], id="it may read its input"),
        pytest.param([stack(0, BARRIER), stack(1)], id="its stack traces are not known"),
        pytest.param([stack(0, BARRIER), asleep(1), stack(2, RECV)], id="another one may read its input"),
        pytest.param([stack(0, BARRIER), asleep(0, "evaluator")], id="it is of another role"),
        pytest.param([asleep(0), asleep(1)], id="none waits for others"),
        pytest.param([stack(0, BARRIER), stack(1, NATIVE)], id="a thread of compiled code may read its input"),
    ],
)
def test_none_is_named_early_without_proof(tasks: list[TaskStack]) -> None:
    assert find_odd_task_early(tasks) is None


def test_a_task_has_waited_if_it_did_not_wake_up_between_two_dumps() -> None:
    old, new = (replace(RECV, parked=ParkedThread(*counts)) for counts in ((3, 4), (4, 5)))
    assert has_waited(old, new)
    assert not has_waited(new, old)
    assert not has_waited(RECV, new)
    assert not has_waited(replace(old, line=1), new)
    assert has_waited(BARRIER, BARRIER)


def test_tasks_of_jax_that_wait_in_compiled_code_count_as_waiting_for_others() -> None:
    tasks = mark_native_waits([stack(0, NATIVE), asleep(1)])
    found = find_odd_task_early(tasks)
    assert found
    assert found.task == TaskId("worker", 1)
