"""The rate of a program is that of about the last minute."""

from __future__ import annotations

from tony.am.step_rate import StepRate


def test_a_program_that_slows_down_has_the_new_rate_soon() -> None:
    rate, found = StepRate(0.0, 0.0), None
    for second in range(1, 101):
        found = rate.add_report(float(second), 10.0 * second)
    assert found == 10.0
    for second in range(1, 71):
        found = rate.add_report(100.0 + second, 1000.0 + second)
    assert found == 1.0


def test_slow_steps_have_a_rate() -> None:
    rate = StepRate(0.0, 1.0)
    assert [rate.add_report(50.0 * number, 1.0 + number) for number in range(4)] == [None, 0.02, 0.02, 0.02]


def test_a_stall_is_no_part_of_it() -> None:
    rate = StepRate(0.0, 0.0)
    assert rate.add_report(10.0, 20.0) == 2.0
    rate.restart(1010.0, 21.0)
    assert rate.add_report(1010.0, 21.0) is None
    assert rate.add_report(1020.0, 41.0) == 2.0
