"""What a job holds at most at one time."""

from collections.abc import Mapping
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tony.model.job_spec import GIB, JobSpec, Resources, Role
from tony.model.setting_choices import AfterCondition, RoleKind
from tony.schedulers.local.claims import peak_demand as peak_module
from tony.schedulers.local.claims.peak_demand import (
    Need,
    compute_memory,
    compute_peak,
    find_coexisting,
    list_acceptable_sizes,
    reduce_to_least,
)

SUCCEEDED, ENDED, STARTED = AfterCondition.SUCCEEDED, AfterCondition.ENDED, AfterCondition.STARTED


def role(memory: int, instances: int = 1, gpus: int = 0, after: Mapping[str, AfterCondition] | None = None) -> Role:
    return Role(instances=instances, resources=Resources(memory=memory, gpus=gpus), after=after or {})


def job(roles: Mapping[str, Role], max_restarts: int = 0) -> JobSpec:
    return JobSpec(roles=roles, max_restarts=max_restarts, command="true")


def test_single_task_job() -> None:
    assert compute_peak(JobSpec(command="true")) == Need(memory=GIB, gpus=0)


def test_vcores_do_not_count() -> None:
    """CPU is shared, not held."""
    spec = JobSpec(roles={"w": Role(resources=Resources(memory=1, vcores=1000))}, command="true")
    assert compute_peak(spec) == Need(memory=1, gpus=0)


def test_setup_is_over_before_all_else_and_keeps_nothing() -> None:
    """With restarts and without: once it has succeeded it is never run again."""
    first = Role(kind=RoleKind.SETUP, resources=Resources(memory=8))
    for restarts in (0, 3):
        assert compute_peak(job({"a": role(3), "first": first, "b": role(4)}, restarts)) == Need(memory=8, gpus=0)
        assert compute_peak(job({"a": role(6), "first": first, "b": role(4)}, restarts)) == Need(memory=10, gpus=0)


def test_setup_roles_side_by_side_add_up() -> None:
    """Nothing says that one of them waits for the other."""
    first = Role(kind=RoleKind.SETUP, resources=Resources(memory=8))
    assert compute_peak(job({"first": first, "second": first, "a": role(3)}, 1)) == Need(memory=16, gpus=0)


def test_restarts_keep_containers() -> None:
    """With restarts a finished task keeps its container, so nothing is subtracted."""
    assert compute_peak(job({"train": role(8), "export": role(3, after={"train": SUCCEEDED})}, max_restarts=1)) == Need(
        memory=11, gpus=0
    )


def test_memory_and_gpus_have_their_own_peaks() -> None:
    """The most memory and the most GPUs may be held at different times."""
    spec = job({"train": role(8, gpus=1), "export": role(3, gpus=4, after={"train": SUCCEEDED})})
    assert compute_peak(spec) == Need(memory=8, gpus=4)
    assert find_coexisting(spec, compute_memory) == ("train",)


def test_roles_without_instances_are_left_out() -> None:
    """A role of no tasks is not part of the sum that is shown."""
    assert find_coexisting(job({"a": role(8, instances=0), "b": role(1)}), compute_memory) == ("b",)


def test_many_roles_are_summed() -> None:
    """Beyond what is worth computing the plain sum is taken: never too low."""
    roles = {"r0": role(1)}
    for number in range(1, peak_module.EXACT_ROLES + 2):
        roles[f"r{number}"] = role(1, after={f"r{number - 1}": SUCCEEDED})
    assert compute_peak(job(roles)).memory == len(roles)


def test_largest_exact_case_is_quick() -> None:
    """Many pairs, the worst case, take no time to speak of."""
    roles = {}
    for number in range(peak_module.EXACT_ROLES // 2):
        roles[f"a{number}"] = role(1)
        roles[f"b{number}"] = role(2, after={f"a{number}": ENDED})
    assert compute_peak(job(roles)).memory == 2 * (peak_module.EXACT_ROLES // 2)


@st.composite
def orders(draw: st.DrawFn) -> dict[str, Role]:
    """Up to seven roles, each after some of those before it."""
    roles: dict[str, Role] = {}
    for number in range(draw(st.integers(1, 7))):
        before = draw(st.lists(st.sampled_from(sorted(roles)), unique=True, max_size=3)) if roles else []
        after = {name: draw(st.sampled_from(list(AfterCondition))) for name in before}
        roles[f"r{number}"] = role(draw(st.integers(0, 9)), instances=draw(st.integers(0, 3)), after=after)
    return roles


@given(orders())
def test_peak_is_the_heaviest_moment(roles: dict[str, Role]) -> None:
    """It equals the heaviest of all sets of roles of which any two can live together, tried one by one."""
    spec = job(roles)
    over = {name: over_before(name, roles) for name in roles}
    sets = [
        chosen
        for size in range(len(roles) + 1)
        for chosen in combinations(roles, size)
        if not any(a in over[b] or b in over[a] for a, b in combinations(chosen, 2))
    ]
    heaviest = max(sum(roles[name].instances * roles[name].resources.memory for name in chosen) for chosen in sets)
    assert compute_peak(spec).memory == heaviest
    shown = find_coexisting(spec, compute_memory)
    assert not any(a in over[b] or b in over[a] for a, b in combinations(shown, 2))


def over_before(name: str, roles: Mapping[str, Role]) -> set[str]:
    """By the definition, recursively: what it waits for the end of, and what had ended before that started."""
    over = set()
    for other, condition in roles[name].after.items():
        over |= over_before(other, roles)
        if condition is not STARTED:
            over.add(other)
    return over


def test_with_fewer_tasks() -> None:
    """Each size down to the least of every role that can do with fewer; the one with most to spare goes first."""
    elastic = Role(instances=4, min_instances=1, resources=Resources(memory=10, gpus=1))
    other = Role(instances=3, min_instances=2, resources=Resources(memory=1))
    spec = job({"worker": elastic, "helper": other, "ps": role(100)})
    assert [(need.memory, need.gpus) for need in list_acceptable_sizes(spec)] == [
        (143, 4),
        (133, 3),
        (123, 2),
        (113, 1),
        (112, 1),
    ]
    assert list_acceptable_sizes(spec)[-1] == compute_peak(reduce_to_least(spec))
    assert list_acceptable_sizes(job({"ps": role(100)})) == (Need(memory=100, gpus=0),)
    assert list_acceptable_sizes(JobSpec(command="true")) == (compute_peak(JobSpec(command="true")),)


def test_thousands_of_sizes_are_tried_in_steps() -> None:
    """Who looks for room decides in no time; the last size is the least all the same."""
    spec = job({"worker": Role(instances=10_000, min_instances=7, resources=Resources(memory=1))})
    found = [need.memory for need in list_acceptable_sizes(spec)]
    assert (found[0], found[-1], found == sorted(found, reverse=True)) == (10_000, 7, True)
    assert len(found) <= 2 * peak_module.STEPS
