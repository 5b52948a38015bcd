"""The decisive line of a program's output is found while that is written."""

from __future__ import annotations

import pytest

from tony.diagnosis.evidence_selection import name_tasks, select_evidence
from tony.diagnosis.output_scanner import OutputScanner
from tony.model.ids import TaskId

TRACEBACK = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    f()\n'
RAISING = TRACEBACK.replace("f()", "raise error")
HANDLING = "\nDuring handling of the above exception, another exception occurred:\n\n"


def scan(*pieces: tuple[float, str], stream: str = "err") -> OutputScanner:
    scanner = OutputScanner(stream)
    for now, text in pieces:
        scanner.feed(text.encode(), now)
    return scanner


def find_decisive(*scanners: OutputScanner, ended: float = 100.0) -> str:
    evidence = select_evidence(scanners, ended)
    return evidence[0].text if evidence else ""


def test_the_first_exception_of_a_chain_counts() -> None:
    text = f"{TRACEBACK}KeyError: 'label'\n{HANDLING}{RAISING}RuntimeError: no such sample\n"
    assert find_decisive(scan((1.0, text))) == "KeyError: 'label'"


def test_what_failed_after_a_vain_lookup_counts() -> None:
    """The program went on because a key was missing; it did not raise anything itself."""
    text = f"{TRACEBACK}KeyError: 'cached'\n{HANDLING}{TRACEBACK}TypeError: x\n"
    assert find_decisive(scan((1.0, text))) == "TypeError: x"


def test_an_error_in_the_handler_of_a_failure_does_not_count() -> None:
    text = f"{TRACEBACK}ValueError: x\n{HANDLING}{TRACEBACK}AttributeError: no attribute 'close'\n"
    assert find_decisive(scan((1.0, text))) == "ValueError: x"


def test_of_an_exception_group_its_first_member_counts() -> None:
    text = (
        '  + Exception Group Traceback (most recent call last):\n  |   File "t.py", line 1, in <module>\n'
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n"
        '    | Traceback (most recent call last):\n    |   File "t.py", line 2, in f\n    |     f()\n'
        "    | KeyError: 'shard-3'\n    +------------------------------------\n"
    )
    assert find_decisive(scan((1.0, text))) == "    | KeyError: 'shard-3'"


def test_an_exception_that_ended_the_program_precedes_those_that_it_logged() -> None:
    logged = f"2026-01-01 10:00:00 ERROR fetch: trying again\n{TRACEBACK}ValueError: logged\n"
    assert find_decisive(scan((1.0, logged), (3.0, f"{TRACEBACK}TypeError: fatal\n"))) == "TypeError: fatal"
    assert find_decisive(scan((1.0, logged))) == "ValueError: logged"


def test_a_record_of_an_error_counts_if_there_is_nothing_else() -> None:
    record = "2026-01-01 10:00:00,123 [ERROR] output folder is not empty\n"
    assert find_decisive(scan((1.0, record))) == record.strip()
    assert find_decisive(scan((1.0, f"{record}{TRACEBACK}RuntimeError: x\n"))) == "RuntimeError: x"


def test_a_traceback_in_a_json_record_counts() -> None:
    trace = TRACEBACK.replace("\n", "\\n").replace('"', '\\"')
    record = f'{{"level": "error", "exception": "{trace}KeyError: \'image\'\\n", "more": "{"x" * 600}"}}\n'
    (line, *_) = select_evidence([scan((1.0, f"{record}done\n"))], 2.0)
    assert (line.text, line.number, line.code_place) == ("KeyError: 'image'", 1, "t.py:3: f()")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{TRACEBACK}RuntimeError: \n        no guard\n\n", "RuntimeError: no guard"),
        (
            "thread 'main' panicked at main.rs:4:46:\ncalled on None\n",
            "thread 'main' panicked at main.rs:4:46: called on None",
        ),
        (f"{TRACEBACK}RuntimeError: \n", "RuntimeError:"),
        (f"{TRACEBACK}RuntimeError: \n\n{HANDLING}{RAISING}ValueError: x\n", "RuntimeError:"),
    ],
)
def test_the_text_of_a_message_may_be_on_the_next_line(text: str, expected: str) -> None:
    assert find_decisive(scan((1.0, text))) == expected


def test_a_panic_that_is_no_error_has_no_message() -> None:
    """Its line looks like a mere warning, so it is not kept."""
    assert find_decisive(scan((1.0, "thread 'WARN' panicked at main.rs:2:5:\nindex out of bounds\n"))) == ""
    text = f"{TRACEBACK}KeyError: 'x'\nthread 'WARN' panicked at main.rs:2:5:\nindex out of bounds\n"
    assert find_decisive(scan((1.0, text))) == "KeyError: 'x'"


def test_the_last_cause_of_an_exception_of_java_counts() -> None:
    text = (
        'Exception in thread "main" a.XException: x\n\tat a.B\nCaused by: a.YException: y\nCaused by: a.ZException: z\n'
    )
    assert find_decisive(scan((1.0, text))) == "Caused by: a.ZException: z"


def test_what_another_program_printed_counts_before_the_report_that_it_failed() -> None:
    failed = f"{TRACEBACK}subprocess.CalledProcessError: Command '['x']' returned non-zero exit status 1.\n"
    assert find_decisive(scan((1.0, "clip.mp4: Invalid data found\n"), (1.0, failed))) == "clip.mp4: Invalid data found"
    assert find_decisive(scan((1.0, "reading clips\n"), (1.0, failed))).startswith("subprocess.CalledProcessError")


@pytest.mark.parametrize(
    "label", ["[rank3]: ", "[1,3]<stderr>:", "3: ", "(train pid=7, ip=10.0.0.5) ", "(train pid=7) "]
)
def test_labels_of_launchers_hide_no_traceback(label: str) -> None:
    lines = f"{TRACEBACK}KeyError: 'x'\n".splitlines()
    (line,) = select_evidence([scan((1.0, "".join(f"{label}{each}\n" for each in lines)))], 2.0)
    assert (line.text, line.code_place) == (f"{label}KeyError: 'x'", "t.py:3: f()")


def test_a_warning_of_python_is_not_the_cause() -> None:
    text = f"/{'long/' * 20}main.py:4: UserWarning: could not load x: cannot open shared object file\n"
    assert find_decisive(scan((1.0, text))) == ""


def test_without_an_error_the_last_line_of_stderr_counts_if_the_program_exited() -> None:
    scanners = [scan((1.0, "epoch 1\n"), stream="out"), scan((99.0, "loading\neither --train or --evaluate\n\n"))]
    (line,) = select_evidence(scanners, 100.0, has_exited=True)
    assert (line.text, line.number, line.rule) == ("either --train or --evaluate", 2, "last-line")
    assert select_evidence(scanners, 100.0) == ()


@pytest.mark.parametrize("text", ["INFO saved", " 50%|#### | 100/200 [00:01<00:02, 90.1it/s]", "step 3", ""])
def test_a_line_about_progress_is_no_error(text: str) -> None:
    assert select_evidence([scan((99.0, f"{text}\n"))], 100.0, has_exited=True) == ()


def test_the_innermost_frame_of_the_users_code_is_kept() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/w/train.py", line 9, in <module>\n    run()\n'
        '  File "/w/data.py", line 5, in load\n    json.loads(text)\n'
        '  File "/usr/lib/python3.11/json/decoder.py", line 337, in decode\n    raise error\n'
        "json.decoder.JSONDecodeError: Expecting value\n"
    )
    (line,) = select_evidence([scan((1.0, text))], 2.0)
    assert line.code_place == "data.py:5 in load: json.loads(text)"
    (line,) = select_evidence([scan((1.0, f"{TRACEBACK}ValueError: x\n"))], 2.0)
    assert line.code_place == "t.py:3: f()"


def test_the_message_of_an_exception_may_come_below_a_second_stack() -> None:
    stack = '\nDetected at node a/b defined at (most recent call last):\n  File "t.py", line 1, in f\n    m.fit(x)\n\n'
    text = f"{TRACEBACK}tf.InvalidArgumentError: Graph execution error:\n{stack}Received a label value of 7\n\t [[b]]\n"
    (line,) = select_evidence([scan((1.0, text))], 2.0)
    assert line.text == "tf.InvalidArgumentError: Graph execution error: Received a label value of 7"
    text = f"{TRACEBACK}RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s): a\n\tsize mismatch\n"
    (line,) = select_evidence([scan((1.0, text))], 2.0)
    assert line.text == "RuntimeError: Error(s) in loading state_dict for Net: Missing key(s): a"


def test_an_exception_of_any_name_ends_a_traceback() -> None:
    assert find_decisive(scan((1.0, f"{TRACEBACK}queue.Empty\n"))) == "queue.Empty"


def test_lines_may_arrive_in_pieces_and_without_an_end() -> None:
    scanner = scan((1.0, "Trace"), (1.1, "back (most recent call last):\n  f()\nVal"), (1.2, "ueError: x"))
    scanner.end(1.3)
    (line,) = select_evidence([scanner], 2.0)
    assert (line.text, line.number, line.stream) == ("ValueError: x", 3, "err")


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_progress_bar_that_is_drawn_again_is_one_line(size: int) -> None:
    """Whatever the pieces in which it arrives; and the error before many of its redraws was not survived."""
    text = f"start\r\n{TRACEBACK}ValueError: x\n" + "".join(f"\r{n}/400 error 0.1" for n in range(400)) + "\n\n"
    pieces = [(100.0, text[at : at + size]) for at in range(0, len(text), size)]
    scanner = scan(*pieces)
    (line, *_) = select_evidence([scanner], 100.0)
    assert (line.text, line.number) == ("ValueError: x", 5)
    assert scanner.line_count == 7


def test_lines_of_other_processes_do_not_end_a_traceback() -> None:
    others = "[1] epoch: 3\nDone\nloss 0.1\n"
    text = TRACEBACK.replace("    f()\n", f"{others}    f()\n") + f"{others}RuntimeError: x\n"
    assert find_decisive(scan((1.0, text))) == "RuntimeError: x"


def test_a_flood_after_the_error_does_not_hide_it() -> None:
    flood = "".join(f"{TRACEBACK}ConnectionResetError: [Errno 104] Connection reset by peer\n" for _ in range(5000))
    assert find_decisive(scan((1.0, f"{TRACEBACK}ValueError: x\n"), (1.1, flood))) == "ValueError: x"


def test_the_end_of_a_flood_is_searched() -> None:
    scanner = OutputScanner("err")
    for _ in range(100):
        scanner.feed(b"loss 0.1 error 0.2\n" * 20_000, 1.0)
    scanner.feed(f"{TRACEBACK}ValueError: x\n".encode(), 1.0)
    scanner.end(1.0)
    (line,) = select_evidence([scanner], 2.0)
    assert (line.text, line.number) == ("ValueError: x", 2_000_004)


def test_an_error_that_was_survived_is_not_the_cause() -> None:
    early = f"{TRACEBACK}KeyError: 'survived'\n" + "epoch\n" * 1000
    assert find_decisive(scan((1.0, early), (60.0, f"{TRACEBACK}ValueError: last\n"))) == "ValueError: last"


def test_what_a_launcher_repeats_is_not_the_cause() -> None:
    child = f"{TRACEBACK}NameError: name 'x' is not defined\n"
    parent = f"{TRACEBACK}torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    assert find_decisive(scan((1.0, child), (2.0, parent))) == "NameError: name 'x' is not defined"


def test_an_error_of_its_own_precedes_one_about_a_peer() -> None:
    peer = f"{TRACEBACK}ConnectionResetError: [Errno 104] Connection reset by peer\n"
    assert find_decisive(scan((1.0, peer), (1.5, f"{TRACEBACK}ValueError: x\n"))) == "ValueError: x"


#: As JAX 0.10.2 ends where a process does not reach a barrier.
JAX_BARRIER = """jax.errors.JaxRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: b1::0. This usually happens \
because a task triggered the barrier too early or too slowly. Please look at the task logs (both timed out and first \
task) to debug further.
# of tasks that reached the barrier: 2/4.
The first task at the barrier: 0. Some timed out task names:
1
3


RPC: /xla.coordination.CoordinationService/Barrier [type.googleapis.com/tensorflow.CoordinationServiceError='']
7
"""


@pytest.mark.parametrize("pieces", [[JAX_BARRIER], JAX_BARRIER.splitlines(keepends=True)], ids=["at once", "by line"])
def test_names_of_missing_processes_are_on_the_lines_that_follow(pieces: list[str]) -> None:
    scanner = scan((1.0, TRACEBACK), *((1.0, piece) for piece in pieces))
    expected = "The first task at the barrier: 0. Some timed out task names: 1 3"
    assert find_decisive(scanner) == expected
    tasks = {1: TaskId("worker", 0), 3: TaskId("worker", 2)}
    named = name_tasks(select_evidence([scanner], 100.0), tasks.get)
    assert [line.named for line in named if line.named] == [(TaskId("worker", 0), TaskId("worker", 2))]


def test_an_exception_that_announces_names_has_each_once() -> None:
    text = "JaxRuntimeError: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):"
    assert find_decisive(scan((1.0, f"{TRACEBACK}{text}\n1\n2\nThe tasks have crashed.\n"))) == f"{text} 1 2"


def test_standard_output_counts() -> None:
    assert find_decisive(scan((1.0, "error: no input\n"), stream="out"), scan((1.0, "epoch 1\n"))) == "error: no input"


def test_colours_are_removed() -> None:
    assert find_decisive(scan((1.0, f"{TRACEBACK}\x1b[31mValueError\x1b[0m: x\n"))) == "ValueError: x"


def test_labels_of_processes_are_passed_over() -> None:
    text = "[1] Traceback (most recent call last):\n[1]   f()\n[1] ValueError: x\n"
    assert find_decisive(scan((1.0, text))) == "[1] ValueError: x"


def test_a_program_that_prints_no_error_has_no_evidence() -> None:
    assert find_decisive(scan((1.0, "epoch 1\nno errors were found\n"))) == ""


def test_the_source_line_of_a_warning_is_passed_over() -> None:
    text = "main.py:4: UserWarning: no libx\n  warn('libx.so: cannot open shared object file')\n"
    assert find_decisive(scan((1.0, text))) == ""
