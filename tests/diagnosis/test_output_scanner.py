"""The decisive line of a program's output is found while that is written."""

from __future__ import annotations

from tony.diagnosis.output_scanner import OutputScanner, select_evidence

TRACEBACK = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    f()\n'


def scan(*pieces: tuple[float, str], stream: str = "err") -> OutputScanner:
    scanner = OutputScanner(stream)
    for now, text in pieces:
        scanner.feed(text.encode(), now)
    return scanner


def find_decisive(*scanners: OutputScanner, ended: float = 100.0) -> str:
    evidence = select_evidence(scanners, ended)
    return evidence[0].text if evidence else ""


def test_the_first_exception_of_a_chain_counts() -> None:
    chain = "\nDuring handling of the above exception, another exception occurred:\n\n"
    text = f"{TRACEBACK}KeyError: 'label'\n{chain}{TRACEBACK}RuntimeError: no such sample\n"
    assert find_decisive(scan((1.0, text))) == "KeyError: 'label'"


def test_an_exception_of_any_name_ends_a_traceback() -> None:
    assert find_decisive(scan((1.0, f"{TRACEBACK}queue.Empty\n"))) == "queue.Empty"


def test_lines_may_arrive_in_pieces_and_without_an_end() -> None:
    scanner = scan((1.0, "Trace"), (1.1, "back (most recent call last):\n  f()\nVal"), (1.2, "ueError: x"))
    scanner.end(1.3)
    (line,) = select_evidence([scanner], 2.0)
    assert (line.text, line.number, line.stream) == ("ValueError: x", 3, "err")


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


def test_standard_output_counts() -> None:
    assert find_decisive(scan((1.0, "error: no input\n"), stream="out"), scan((1.0, "epoch 1\n"))) == "error: no input"


def test_labels_of_processes_are_passed_over() -> None:
    text = "[1] Traceback (most recent call last):\n[1]   f()\n[1] ValueError: x\n"
    assert find_decisive(scan((1.0, text))) == "[1] ValueError: x"


def test_a_program_that_prints_no_error_has_no_evidence() -> None:
    assert find_decisive(scan((1.0, "epoch 1\nno errors were found\n"))) == ""
