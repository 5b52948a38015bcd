"""LinkedIn TonY's flags: its ways of writing them, and none that is dropped in silence."""

from __future__ import annotations

import pytest

from tests.facts import mention_each
from tony.config.legacy.flags import FLAGS, Flags, parse
from tony.errors import ConfigError


def list_errors(*words: str) -> list[str]:
    """What is said of words that cannot be flags."""
    with pytest.raises(ConfigError) as caught:
        parse(words)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("dashes", ["-", "--"])
def test_one_or_two_dashes_with_blank_or_equals_sign(dashes: str) -> None:
    """All four ways, as LinkedIn TonY takes them."""
    expected = Flags(executes="python x.py", conf=("a=b=c",), debug=True)
    assert parse([f"{dashes}executes", "python x.py", f"{dashes}conf", "a=b=c", f"{dashes}debug"]) == expected
    assert parse([f"{dashes}executes=python x.py", f"{dashes}conf=a=b=c", f"{dashes}debug"]) == expected


def test_every_flag_fills_its_field() -> None:
    for row in FLAGS:
        found = getattr(parse([f"--{row.name}", "x"] if row.argument else [f"--{row.name}"]), row.name)
        assert found == (("x",) if row.repeated else "x" if row.argument else True)


def test_repeatable_flags_keep_their_order() -> None:
    """Two `--conf` of one key both count: LinkedIn TonY's parser kept the last one."""
    words = ["--shell_env", "A=1", "--shell_env", "B=2", "--conf", "k=1", "--conf", "k=2"]
    assert parse(words) == Flags(shell_env=("A=1", "B=2"), conf=("k=1", "k=2"))


def test_a_value_may_begin_with_a_dash() -> None:
    assert parse(["--task_params", "--epochs 3 --lr=0.1"]).task_params == "--epochs 3 --lr=0.1"


def test_quotes_that_no_shell_has_removed_are_none_of_the_value() -> None:
    """Schedulers of work flows pass them on."""
    assert parse(["--executes", '"python x.py"', "--task_params", '"a" "b"']) == Flags(
        executes="python x.py", task_params='"a" "b"'
    )


def test_nothing_is_nothing() -> None:
    assert parse([]) == Flags()


def test_unknown_flags_are_refused_with_the_nearest_one() -> None:
    """LinkedIn TonY stops there and drops the rest."""
    assert mention_each(
        list_errors("--python_enc", "x", "--exec", "y", "--src_dir", "z"),
        ("--python_enc (command line)", "--python_venv"),
        ("--exec (command line)", "--executes"),
    )
    assert list_errors("--zzzzzz=1")[0].startswith("--zzzzzz (command line): unknown flag; known: --executes,")


def test_words_that_belong_to_no_flag_are_refused() -> None:
    """Mostly a value whose quotes were forgotten."""
    assert mention_each(list_errors("--executes", "python", "x.py"), ("x.py", "--epochs 3", "--task_params"))


def test_a_flag_without_its_value_is_refused() -> None:
    assert mention_each(
        list_errors("--src_dir", "--debug", "--executes"),
        ("--src_dir (command line)", "--src_dir PATH"),
        ("--executes (command line)", "--executes COMMAND"),
    )


def test_a_switch_takes_no_value_and_others_count_once() -> None:
    """LinkedIn TonY takes the first of two and says nothing."""
    assert mention_each(
        list_errors("--debug=yes", "--src_dir", "a", "--src_dir", "b"),
        ("--debug (command line)", "no value"),
        ("--src_dir (command line)", "twice"),
    )
