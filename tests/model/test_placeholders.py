"""Placeholders are filled, and every other brace of a command stays what it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts import mentions
from tony.model.placeholders import NAMES, check, fill, find_addressed_roles, find_misspelled_names

VALUES = {
    "role": "worker",
    "index": "3",
    "num_tasks": "4",
    "job_id": "local-1",
    "session": "2",
    "attempt": "1",
    "params.lr": "0.1",
    "params.out-dir": "/tmp/{role}",
}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("python train.py --task {role}:{index}", "python train.py --task worker:3"),
        ("{num_tasks} {job_id} {session} {attempt} {params.lr}", "4 local-1 2 1 0.1"),
        ("{{role}} is {role}", "{role} is worker"),
        ("{{{role}}} and {{{{role}}}}", "{worker} and {{role}}"),
        ('{"cluster": {"me": {index}}}', '{"cluster": {"me": 3}}'),
        ('{"cluster": {"me": "{role}"}}', '{"cluster": {"me": "worker"}}'),
        ("awk '{print $1}' {index}", "awk '{print $1}' 3"),
        ("echo ${HOME} ${role} ${index:-0}", "echo ${HOME} ${role} ${index:-0}"),
        ("touch {a,b} {rank} {} { role } {Role}", "touch {a,b} {rank} {} { role } {Role}"),
        ("{role", "{role"),
        ("role} }}{{", "role} }}{{"),
        ("{params.out-dir}", "/tmp/{role}"),
        ("{{params.lr}} {params.unknown}", "{params.lr} {params.unknown}"),
        ("", ""),
    ],
)
def test_fill(text: str, filled: str) -> None:
    """Only known names in braces are replaced, once."""
    assert filled == fill(text, VALUES)


def test_check_names_unknown_parameters_with_their_place() -> None:
    """Escaped ones, the shell's and unknown plain words are no errors."""
    text = "run {params.lr} {params.lrr} {{params.x}} ${params.y} {rank} {params.z}"
    found = check(text, ["lr"])
    assert [(text.index("{params.lrr}"), "params.lrr"), (text.index("{params.z}"), "params.z")] == [
        (error.position, error.name) for error in found
    ]
    assert mentions(found[0].message, "{params.lrr}", "lr")
    assert "the job has none" in check("{params.lr}", [])[0].message


def test_addresses_of_roles() -> None:
    """Filled in by the role's name, and checked against the job's roles."""
    text = "a {address.head} {{address.ps}} {address.my-role} ${address.x}"
    assert find_addressed_roles([text, "{address.ps}"]) == {"head", "my-role", "ps"}
    assert find_addressed_roles([text]) == {"head", "my-role"}
    values = {"address.head": "h:1", "address.ps": "p:2"}
    assert fill(text, values) == "a h:1 {address.ps} {address.my-role} ${address.x}"
    (error,) = check(text, [], ["head", "ps"])
    assert (error.name, error.position) == ("address.my-role", text.index("{address.my"))
    assert mentions(error.message, "{address.my-role}", "head, ps")


@given(st.text())
def test_text_without_our_names_stays(text: str) -> None:
    """Whatever a command holds, nothing but our names in braces changes it."""
    if not any(f"{{{name}}}" in text for name in (*NAMES, "params.lr", "params.out-dir")):
        assert text == fill(text, VALUES)


@given(st.lists(st.sampled_from(["{", "}", "{{", "}}", "$", "role", "index", "{params.lr}", " "])).map("".join))
def test_doubling_braces_of_known_names_is_literal(text: str) -> None:
    """What check finds is empty for known names, whatever the braces."""
    assert check(text, ["lr"]) == []


@pytest.mark.parametrize("word", ["parms", "param", "parmas", "Params", "PARAMS", "paramss"])
def test_a_slip_in_params_is_found(word: str) -> None:
    """The parameter is one of the job's, and the word before the dot is nearly ours."""
    text = f"run --lr {{{word}.lr}}"
    (error,) = find_misspelled_names(text, ["lr"])
    assert (9, f"{word}.lr") == (error.position, error.name)
    assert mentions(error.message, f"{{{word}.lr}}", "{params.lr}")


@pytest.mark.parametrize(
    "text", ["{params.lr}", "{param}", "{param.other}", "${param.lr}", "{{param.lr}}", "{parent.lr}", "{self.lr}"]
)
def test_other_braces_are_not_misspelled_names(text: str) -> None:
    """Plain braces pass unchanged, as do those of names that the job does not have."""
    assert [] == find_misspelled_names(text, ["lr"])


def test_a_message_lists_few_names() -> None:
    """Of a hundred parameters a dozen; none that cannot be shown, and of a long one only the beginning."""
    params = ["\udce6", *(f"p{number:02}" for number in range(20)), "a" * 500]
    (error,) = check("{params.%s}" % ("x" * 500), params)
    listed = ", ".join(f"p{number:02}" for number in range(11))
    assert mentions(error.message, "10 more", f"{{params.{'x' * 92}…}}", f"{'a' * 99}…", listed)
    assert len(find_misspelled_names("{parms.%s}" % ("a" * 500), params)[0].message) < 300
