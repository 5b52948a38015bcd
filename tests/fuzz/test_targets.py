"""Every target takes every input: those that the fuzzer keeps, and a sample of what Hypothesis thinks of."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.fuzz import corpus
from tests.fuzz.hostile import inputs
from tests.fuzz.registry import TARGETS
from tests.fuzz.target import check

#: Inputs for each target; `make fuzz` tries thousands a second, for as long as one likes.
_EXAMPLES = 20

NAMES = sorted(TARGETS)


class _Input:
    """An input that is shown cut: Hypothesis would write out 100 kB, and fail for having to."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __repr__(self) -> str:
        cut = "" if len(self.content) <= 1000 else f" and {len(self.content) - 1000} bytes more"
        return f"{self.content[:1000]!r}{cut}"


@pytest.mark.parametrize("name", NAMES)
def test_seeds_are_accepted(name: str) -> None:
    """The inputs that fuzzing begins with are valid, or nearly: they reach deep."""
    target = TARGETS[name]
    seeds = target.seeds()
    assert seeds
    for seed in seeds:
        check(target, seed)


@pytest.mark.parametrize("name", NAMES)
def test_corpus_inputs_cause_no_error(name: str) -> None:
    """Each input of the corpus once covered code that no other covered."""
    for data in corpus.load(name):
        check(TARGETS[name], data)


@pytest.mark.parametrize("name", NAMES)
def test_fixed_random_inputs_are_handled(name: str) -> None:
    """The same inputs in each run; a failing one is kept for `--try`."""
    target = TARGETS[name]
    failing = Path(__file__).parents[2] / ".cache" / "fuzz" / name / "find-of-hypothesis"

    @settings(
        max_examples=_EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(inputs(target).map(_Input))
    def take(data: _Input) -> None:
        try:
            check(target, data.content)
        except BaseException:
            failing.parent.mkdir(parents=True, exist_ok=True)
            failing.write_bytes(data.content)
            raise

    take()


def test_every_corpus_has_its_target() -> None:
    """A corpus that no target reads tests nothing."""
    assert {path.stem for path in corpus.FOLDER.glob("*.txt")} <= TARGETS.keys()


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in corpus.FOLDER.iterdir()) < 2_000_000
