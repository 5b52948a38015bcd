"""A bug of tony is quoted, with its place, by what reports the end of an executor."""

from __future__ import annotations

from tony.diagnosis.bug_line import EXECUTOR_BUG, find_executor_bug, format_bug


def test_the_sentence_about_a_container_names_the_exception_and_its_place() -> None:
    try:
        raise ValueError("x (y)")
    except ValueError as error:
        text = format_bug(error)
    found = find_executor_bug(f"its executor exited with exit code 70: {EXECUTOR_BUG}{text}; full log: /a/b.log")
    assert found
    assert (found.text, found.code_place.partition(":")[0]) == ("ValueError: x (y)", "test_bug_line.py")


def test_other_ends_are_no_bug() -> None:
    assert find_executor_bug(f"its executor exited with exit code 3: {EXECUTOR_BUG}x") is None
    assert find_executor_bug("its executor exited with exit code 70: ended") is None
