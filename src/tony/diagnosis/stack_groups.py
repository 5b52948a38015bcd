"""Names the task that the others wait for, from the stack traces of all tasks. Pure.

Reads what `py-spy dump` and `faulthandler` write; of both the innermost frame comes first within a thread.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from posixpath import basename

from tony.diagnosis.collective_trace import LateTask, ProcessTrace, find_late_task, parse_traces
from tony.diagnosis.library_files import is_library_file
from tony.diagnosis.nccl_status import LateProcess, find_late_process, parse_pids, parse_status
from tony.diagnosis.parked_threads import ParkedThread, find_parked_thread
from tony.model.ids import TaskId

#: Also of `=== and 3 more processes`, of which nothing is known.
_PROCESS = re.compile(r"^=== (?:process|and) ", re.MULTILINE)
#: `Thread 4711 (idle): "MainThread"`, `Thread 0x00007f12 (most recent call first):`, `Current thread 0x…`.
_THREAD = re.compile(r"^(?:Current thread|Thread) \S+")
_SPY_FRAME = re.compile(r"^ +(?P<function>.+?) \((?P<file>.+):(?P<line>\d{1,9})\)$")
_FAULT_FRAME = re.compile(r'^ +File "(?P<file>.+)", line (?P<line>\d{1,9}) in (?P<function>.+)$')
#: Beginning of the source line below a frame, as `stack_source` writes it; no function's name begins like that.
SOURCE_MARK = "        > "
#: Characters of a line of a dump from which it is no frame, and of a name in a sentence: dumps come from executors.
_MAX_LINE_CHARACTERS = 500
_MAX_NAME_CHARACTERS = 100
#: Functions that only call another one.
_WRAPPERS = re.compile(
    r"wrap|decorate_context|error_handler|^_?inner$|_call_impl$|^__(?:call|enter|exit)__$|^<lambda>$"
)
#: Functions that Python makes of parts of others.
_COMPREHENSIONS = re.compile(r"<(?:genexpr|listcomp|setcomp|dictcomp|lambda)>$")
#: Functions in which tasks of a gang wait for each other, and files of libraries for that.
_COLLECTIVES = re.compile(
    r"^_?(?:all_?reduce|all_?gather|all_?to_?all|reduce_?scatter|broadcast|barrier|monitored_barrier|gather|scatter"
    r"|reduce|psum|sync_global_devices|process_allgather|wait_at_barrier|synchronize)(?:_\w+)?$"
)
_COLLECTIVE_FILES = re.compile(
    r"/torch/distributed/|/torch/nn/parallel/|/horovod/|/mpi4py/|/jax/.*multihost|/jax/_src/distributed|/deepspeed/comm"
    r"|/tensorflow/python/(?:eager/execute|distribute/|training/server_lib|training/checkpoint_utils)"
)
#: Functions of user code in which tasks wait for each other, by their names.
_USER_BARRIERS = re.compile(
    r"^_?(?:\w+_)?(?:barrier|rendezvous|all_?reduce|all_?gather|wait_for_(?:all|others|peers|workers))$"
)
#: Roles whose only task takes part in the collective operations of another role.
_CHIEFS = frozenset({"chief", "master"})
#: Functions of JAX in which an idle program waits for its devices, and these for other tasks.
_DEVICE_WAITS = re.compile(r"^(?:_value|block_until_ready)$")
_DEVICE_FILES = re.compile(r"/jax/")
#: Files of libraries in which a program waits for its input.
_INPUT_FILES = re.compile(r"/tensorflow/python/data/|/torch/utils/data/")
#: Functions in which a main thread waits for other threads once its program has ended.
_EXITS = re.compile(r"^(?:_shutdown|_python_exit|_exit_function)$")
#: Tasks whose steps must be known to say which one is behind.
_FEWEST_STEPS = 2
#: Groups of tasks that are described.
_MAX_GROUPS = 2
#: The function that threads other than the main one begin with.
_THREAD_START = re.compile(r"^_bootstrap(?:_inner)?$")


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One call of a function; `source` is that line of the file, if it is known."""

    function: str
    file: str
    line: int
    source: str = ""

    @property
    def name(self) -> str:
        """Return the name of the function without that of its class, which only newer tools write."""
        return self.function.rpartition(".")[2]

    @property
    def is_user_code(self) -> bool:
        """Return True if the file is neither of a library nor of Python."""
        return not is_library_file(self.file)

    @property
    def is_collective(self) -> bool:
        """Return True if tasks wait for each other in it, or an idle program most likely waits for others."""
        if self.is_user_code:
            return False
        if _DEVICE_WAITS.match(self.name) and _DEVICE_FILES.search(self.file):
            return True
        return self.is_named_collective or bool(_COLLECTIVE_FILES.search(self.file))

    @property
    def is_named_collective(self) -> bool:
        """Return True if it has the name of a function in which tasks wait for each other."""
        return bool((_USER_BARRIERS if self.is_user_code else _COLLECTIVES).match(self.name))

    @property
    def is_input(self) -> bool:
        """Return True if the program waits for its input in it."""
        return bool(_INPUT_FILES.search(self.file))


@dataclass(frozen=True, slots=True)
class WaitPoint:
    """Where a program waits.

    Attributes:
        function: the function that user code called, or the innermost one of user code.
        file, line: of the user code.
        caller: the innermost function of user code, of comprehensions the one that they are in.
        is_collective: it waits for other tasks there.
        is_device_wait: it waits for its devices, most likely because these wait for other tasks.
        is_exiting: its main program has ended, successfully or not, and other threads keep it running.
        parked: how it sleeps or waits for a lock; None if it may wait for input.
        source: that line of the file; empty if not known.
    """

    function: str
    file: str
    line: int
    caller: str = ""
    is_collective: bool = False
    is_device_wait: bool = False
    is_exiting: bool = False
    parked: ParkedThread | None = None
    source: str = ""

    def __str__(self) -> str:
        function, file = self.function[:_MAX_NAME_CHARACTERS], basename(self.file)[:_MAX_NAME_CHARACTERS]
        source = f": {self.source[:_MAX_NAME_CHARACTERS]}" if self.source else ""
        return f"{function} at {file}:{self.line}{source}"


@dataclass(frozen=True, slots=True)
class CollectiveEvidence:
    """What libraries report of collective operations, in the stack traces of a task.

    Attributes:
        traces: of PyTorch's flight recorder, one for each process.
        pids: the task's processes.
        late: processes of the job, as NCCL reports them.
    """

    traces: Sequence[ProcessTrace] = ()
    pids: frozenset[int] = frozenset()
    late: Sequence[LateProcess] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStack:
    """A task of a stalled session.

    Attributes:
        point: where it waits; None if not known.
        collectives: what libraries report of its collective operations.
        step: the last step that it reported; None if it reports none.
        has_ended: its program has ended, while others run.
    """

    task: TaskId
    point: WaitPoint | None = None
    collectives: CollectiveEvidence = CollectiveEvidence()
    step: float | None = None
    has_ended: bool = False


@dataclass(frozen=True, slots=True)
class OddTask:
    """The task that the others wait for.

    Attributes:
        task, frame: None and empty if not known.
        sentence: where the tasks wait.
    """

    task: TaskId | None
    frame: str
    sentence: str


def find_wait_point(text: str) -> WaitPoint | None:
    """Return where a program waits, from a dump of all of its processes; None if no process runs user code.

    Of several processes the one with the longest stack of user code counts: launchers have none, or a short one.
    """
    best: list[StackFrame] = []
    processes = _PROCESS.split(text)[1:] or [text]
    threads = [(process, frames) for process in processes for frames in _parse_threads(process)]
    own = ""
    for process, frames in threads:
        if _THREAD_START.match(frames[-1].function) or (frames[-1].function, len(frames)) == ("run", 1):
            continue
        if _count_user_frames(frames) > _count_user_frames(best):
            own, best = process, frames
    place = next((index for index, frame in enumerate(best) if frame.is_user_code), None)
    if place is None:
        return _find_exit(threads)
    user, called = best[place], best[:place]
    named = next((frame for frame in reversed(called) if not _WRAPPERS.search(frame.name)), None)
    caller = next((frame for frame in best[place:] if not _COMPREHENSIONS.search(frame.function)), user)
    is_collective = _is_collective(best, called)
    innermost = [frames[0].file for process, frames in threads if process is own and frames is not best]
    return WaitPoint(
        named.function if named else user.function,
        user.file,
        user.line,
        caller.function,
        is_collective=is_collective,
        is_device_wait=is_collective and not any(frame.is_named_collective for frame in best),
        parked=find_parked_thread(own, processes, [frame.file for frame in called], innermost),
        source=user.source,
    )


def _find_exit(threads: Sequence[tuple[str, list[StackFrame]]]) -> WaitPoint | None:
    """Return where a program waits whose main program has ended."""
    exits = (frames[-1] for _, frames in threads if not frames[-1].is_user_code)
    last = next((frame for frame in exits if _EXITS.match(frame.name)), None)
    return WaitPoint(last.function, last.file, last.line, is_exiting=True) if last else None


def _is_collective(frames: Sequence[StackFrame], called: Sequence[StackFrame]) -> bool:
    """Return True if a thread waits for other tasks.

    Args:
        called: the frames that user code called.
    """
    if any(frame.is_input for frame in called):
        return False
    return any(frame.is_collective for frame in called) or any(
        frame.is_user_code and frame.is_named_collective for frame in frames
    )


def _count_user_frames(frames: Sequence[StackFrame]) -> int:
    return sum(frame.is_user_code for frame in frames)


def _parse_threads(text: str) -> Sequence[list[StackFrame]]:
    """Return the frames of each thread that has any, the innermost first."""
    threads: list[list[StackFrame]] = []
    for line in text.splitlines():
        if _THREAD.match(line):
            threads.append([])
        elif threads and line.startswith(SOURCE_MARK):
            if threads[-1]:
                threads[-1][-1] = replace(threads[-1][-1], source=line.removeprefix(SOURCE_MARK))
        elif threads:
            frame = parse_frame(line)
            if frame:
                threads[-1].append(frame)
    return [frames for frames in threads if frames]


def parse_frame(line: str) -> StackFrame | None:
    """Return the frame of a line of a dump; None if it is none."""
    if len(line) > _MAX_LINE_CHARACTERS:
        return None
    match = _FAULT_FRAME.match(line) or _SPY_FRAME.match(line)
    return StackFrame(match["function"], match["file"], int(match["line"])) if match else None


def find_collective_evidence(text: str) -> CollectiveEvidence:
    """Return what libraries report of collective operations, from a dump of all processes of a task."""
    return CollectiveEvidence(parse_traces(text), parse_pids(text), parse_status(text))


def find_odd_task(tasks: Sequence[TaskStack]) -> OddTask:
    """Return the task that the others wait for, and one sentence about where the tasks are.

    It is, in this order: one whose main program has ended; one that has not joined a collective operation of the
    others, as libraries report; one that is not in a collective operation while others are; one that waits elsewhere
    than most; one that has ended; the only one with the lowest step.
    """
    running = [each for each in tasks if not each.has_ended]
    odd = _select_first([each for each in running if each.point and each.point.is_exiting])
    late = None if odd else _find_late_task(running)
    odd = odd or next((each for each in running if late and each.task == late.task), None)
    odd = odd or _find_outside_collective(running) or _find_outside_majority(running)
    odd = odd or next((each for each in tasks if each.has_ended), None) or _find_slowest(running)
    first = late.sentence if late else ""
    if odd is None:
        return OddTask(None, "", "; ".join(filter(None, [first, _describe_all(running)])))
    others = [each for each in running if each is not odd]
    parts = [first, _describe_odd(odd), _describe_others(others)]
    frame = str(odd.point) if odd.point else ""
    return OddTask(odd.task, frame, "; ".join(filter(None, parts)))


def describe_lone_task(stack: TaskStack, others_count: int) -> OddTask:
    """Return a task that makes no steps while others do, with a sentence about it."""
    others = "another task makes" if others_count == 1 else f"{others_count} other tasks make"
    return OddTask(stack.task, str(stack.point or ""), f"{_describe_odd(stack)}; {others} steps")


def waits_for_others(stacks: Sequence[TaskStack]) -> bool:
    """Return True if a task waits for others in a collective operation."""
    groups = (group for each in stacks for trace in each.collectives.traces for group in trace.groups)
    is_recorded = any(group.waiting for group in groups)
    return is_recorded or any(each.point is not None and each.point.is_collective for each in stacks)


def _find_late_task(tasks: Sequence[TaskStack]) -> LateTask | None:
    """Return the task that has not joined a collective operation of the others, as far as libraries report that."""
    late = find_late_task({each.task: each.collectives.traces for each in tasks})
    reports = [report for each in tasks for report in each.collectives.late]
    return late or find_late_process(reports, {each.task: each.collectives.pids for each in tasks})


def find_odd_task_early(tasks: Sequence[TaskStack]) -> OddTask | None:
    """Return the task that the others wait for if it waits for no input; None if that is not certain.

    Only roles of which a task waits for others count, and the chief. All of their other tasks must sleep, wait for a
    lock or have ended. Compiled code that waits for a lock may wait for a thread of its own that reads.
    """
    waiting = [each for each in tasks if each.point and each.point.is_collective]
    roles = {each.task.role for each in waiting} | _CHIEFS
    gang = [each for each in tasks if each.task.role in roles]
    outside = [each for each in gang if each not in waiting and not each.has_ended]
    parked = [each.point.parked for each in outside if each.point and each.point.parked]
    if not waiting or len(parked) < len(outside) or any(each.is_native for each in parked):
        return None
    # Programs that wait for their devices alone do not wait for one that has ended.
    if not outside and (len(gang) == len(waiting) or all(each.point and each.point.is_device_wait for each in waiting)):
        return None
    return find_odd_task(gang)


def mark_native_waits(tasks: Sequence[TaskStack]) -> list[TaskStack]:
    """Return the tasks of a framework whose collective operations are compiled code, which shows in no stack trace."""
    return [
        replace(each, point=replace(each.point, is_collective=True, is_device_wait=True))
        if each.point and each.point.parked and each.point.parked.is_native
        else each
        for each in tasks
    ]


def has_waited(old: WaitPoint | None, new: WaitPoint | None) -> bool:
    """Return True if a program has waited for others, or been asleep, at the same place since an earlier dump."""
    if old is None or new is None or (old.file, old.line) != (new.file, new.line):
        return False
    if new.is_collective:
        return old.is_collective
    return bool(old.parked and new.parked and old.parked.waits_after == new.parked.waits_before)


def _select_first(tasks: Sequence[TaskStack]) -> TaskStack | None:
    """Return the task with the lowest step, of several the first; None if there are none."""
    return min(tasks, key=lambda each: (each.step is None, each.step or 0.0, each.task), default=None)


def _find_outside_collective(tasks: Sequence[TaskStack]) -> TaskStack | None:
    known = [each for each in tasks if each.point]
    outside = [each for each in known if each.point and not each.point.is_collective]
    return _select_first(outside) if len(outside) < len(known) else None


def _find_outside_majority(tasks: Sequence[TaskStack]) -> TaskStack | None:
    """Return a task that is at another line than most; else, as loops that poll have several, in another function."""
    known = [(each, each.point) for each in tasks if each.point]
    lines = [(basename(point.file), point.line) for _, point in known]
    functions = [
        line if point.caller == "<module>" else (basename(point.file), point.caller)
        for line, (_, point) in zip(lines, known, strict=True)
    ]
    for places in (lines, functions):
        place, count = max(Counter(places).items(), key=lambda each: each[1], default=(None, 0))
        if 2 * count > len(known):
            return _select_first([each for (each, _), own in zip(known, places, strict=True) if own != place])
    return None


def _find_slowest(tasks: Sequence[TaskStack]) -> TaskStack | None:
    steps = sorted((each.step, each.task) for each in tasks if each.step is not None)
    if len(tasks) == 1:
        return tasks[0]
    if len(steps) < _FEWEST_STEPS or steps[0][0] == steps[1][0]:
        return None
    return next(each for each in tasks if each.task == steps[0][1])


def _group_by_point(tasks: Sequence[TaskStack]) -> Mapping[tuple[str, int], list[TaskStack]]:
    groups: dict[tuple[str, int], list[TaskStack]] = defaultdict(list)
    for each in tasks:
        if each.point:
            groups[basename(each.point.file), each.point.line].append(each)
    return groups


def _describe_odd(odd: TaskStack) -> str:
    step = "" if odd.step is None else f" (last step {odd.step:,.10g})"
    if odd.has_ended:
        return f"{odd.task}{step} has ended"
    if odd.point and odd.point.is_exiting:
        return f"the main program of {odd.task}{step} has ended, but threads keep it in {odd.point}"
    return f"{odd.task}{step} is in {odd.point}" if odd.point else f"{odd.task}{step} is behind"


def _describe_others(others: Sequence[TaskStack]) -> str:
    groups = sorted(_group_by_point(others).values(), key=len, reverse=True)
    if not groups:
        return ""
    first = groups[0]
    if len(others) == 1:
        return f"{first[0].task} is in {first[0].point}"
    if len(first) == len(others):
        return f"the other {len(others)} are in {first[0].point}"
    are = "is" if len(first) == 1 else "are"
    return f"{len(first)} of the other {len(others)} {are} in {first[0].point}"


def _describe_all(tasks: Sequence[TaskStack]) -> str:
    groups = sorted(_group_by_point(tasks).values(), key=len, reverse=True)
    if not groups:
        return "no stack traces of its programs are known"
    if len(groups[0]) == len(tasks):
        return f"all {len(tasks)} tasks are in {groups[0][0].point}"
    return "; ".join(_describe_odd(group[0]) for group in groups[:_MAX_GROUPS])
