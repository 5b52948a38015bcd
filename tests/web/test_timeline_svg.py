"""The picture of a timeline: every task has its lane, what matters is seen, and it stays small."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tests.history.simulated_logs import entries, life, record
from tests.support.timelines import timeline
from tony.history.timeline import Mark, MarkerKind, SessionSpan, Span, TaskPhase, TaskResources, Timeline
from tony.model.setting_choices import RoleKind
from tony.web.timeline_svg import MAX_LANES, Drawing, draw


def gang(tasks: int, roles: tuple[str, ...] = ("worker",), **more: object) -> Timeline:
    """Each waits, is set up, and runs to the end at 100 s; sometimes one dies and begins again."""
    chance = random.Random(1)
    spans: list[Span] = []
    marks: list[Mark] = []
    for role in roles:
        for index in range(tasks):
            name, ready, runs = f"{role}:{index}", chance.uniform(1, 5), chance.uniform(6, 9)
            spans += [
                Span(name, 1, 0, TaskPhase.WAITING, 0.0, ready),
                Span(name, 1, 0, TaskPhase.SET_UP, ready, runs, held=True),
                Span(name, 1, 1, TaskPhase.RUNNING, runs, 100.0, held=True),
            ]
    line = Timeline(
        job="j",
        accepted=1000.0,
        until=100.0,
        spans=tuple(spans),
        sessions=(SessionSpan(1, 0.0, 100.0, "the job begins"),),
        marks=tuple(marks),
        roles={role: TaskResources(RoleKind.TRACKED, 1, 0, 1) for role in roles},
        first_start=6.0,
        ended=100.0,
    )
    return replace(line, **more)  # type: ignore[arg-type]


def parsed(drawing: Drawing) -> ElementTree.Element:
    """The picture as XML: it must be well-formed, whatever stands in it."""
    return ElementTree.fromstring(f"<svg>{drawing.picture}</svg>")


def test_few_tasks_have_a_lane_each_and_bars_with_titles() -> None:
    """A bar for each thing that a task did, as wide as that took."""
    drawing = draw(gang(3))
    assert ["worker:0", "worker:1", "worker:2"] == [lane.label for lane in drawing.labels]
    picture = parsed(drawing)
    running = [rect for rect in picture.iter("rect") if rect.get("class") == "t-running"]
    assert 3 == len(running)
    titles = [title.text or "" for rect in running for title in rect]
    assert all("running" in title and "session 1" in title for title in titles)
    assert all(90 < float((rect.get("width") or "").rstrip("%")) < 95 for rect in running)


def test_many_tasks_share_lanes_and_a_death_is_seen() -> None:
    """Ten thousand tasks: some lanes, few bytes; the one that died shows, and each role has a label."""
    death = Mark(MarkerKind.DEATH, 50.0, "worker:4711", "lost")
    drawing = draw(gang(5000, ("worker", "ps"), marks=(death,)))
    assert 10_000 <= drawing.per_lane * MAX_LANES
    assert ["worker", "ps"] == [lane.label for lane in drawing.labels]
    assert len(drawing.picture) < 60_000
    classes = [path.get("class") for path in parsed(drawing).iter("path")]
    assert "t-died" in classes
    assert "1 death" in drawing.summary
    assert {"died", "running"} <= drawing.shown


def test_no_lane_holds_tasks_of_two_roles() -> None:
    drawing = draw(gang(301, ("a", "b", "c")))
    assert ["a", "b", "c"] == [lane.role for lane in drawing.labels]
    assert [(0, 300), (301, 601), (602, 902)] == [(lane.first, lane.last) for lane in drawing.labels]


def test_a_part_of_the_time() -> None:
    """What is not in it is not drawn."""
    drawing = draw(gang(3), 20.0, 40.0)
    rects = [rect for rect in parsed(drawing).iter("rect") if (rect.get("class") or "").startswith("t-")]
    assert {"t-running"} == {rect.get("class") for rect in rects}
    assert {"0%"} == {rect.get("x") for rect in rects}


def test_the_axis_on_a_narrow_page() -> None:
    """Every other moment can be left out there."""
    found = [text for text in parsed(draw(gang(3))).iter("text") if (text.get("class") or "").startswith("axis")]
    left_out = [text.text for text in found if "other" in (text.get("class") or "").split()]
    assert ["0 s", "15 s", "30 s", "45 s", "1 m", "1 m 15 s", "1 m 30 s"] == [text.text for text in found]
    assert ["15 s", "45 s", "1 m 15 s"] == left_out


def test_hostile_words_stay_words() -> None:
    """What programs and hosts say becomes text, and nothing else."""
    evil = "</title><script>alert(1)</script>\x1b[2J\u202e"
    line = gang(2, marks=(Mark(MarkerKind.FAILURE, 5.0, "worker:0", evil),))
    spans = (replace(line.spans[0], note=evil), *line.spans[1:])
    drawing = draw(replace(line, spans=spans))
    assert [] == [each for each in parsed(drawing).iter() if each.tag == "script"]
    assert not {"\x1b", "\u202e"} & set(drawing.picture)


@pytest.mark.parametrize("tasks", [0, 1, 48, 49, 241])
@pytest.mark.parametrize("until", [0.0, 0.02, 100.0, 1e7])
def test_any_size(tasks: int, until: float) -> None:
    """Nothing at all, and for ever: well-formed, with an axis."""
    line = gang(tasks)
    spans = tuple(replace(span, until=min(span.until, until)) for span in line.spans if span.since < until)
    picture = parsed(draw(replace(line, spans=spans, until=until)))
    assert [text for text in picture.iter("text") if (text.get("class") or "").startswith("axis")]


@pytest.mark.parametrize("seed", range(25))
def test_any_life(seed: int) -> None:
    """Random lives: well-formed, nothing outside of the picture."""
    lived = life(seed)
    line = timeline(record(lived.spec), entries(lived.cluster))
    picture = parsed(draw(line))
    for rect in picture.iter("rect"):
        left, width = (float((rect.get(name) or "").rstrip("%")) for name in ("x", "width"))
        assert 0 <= left <= 100
        assert left + width <= 100.2


def signs(line: Timeline, name: str) -> list[float]:
    """Where signs of a kind stand, in per cent."""
    found = [each for each in parsed(draw(line)).iter("text") if each.get("class") == f"m-{name}"]
    return [float((each.get("x") or "").rstrip("%")) for each in found]


def test_signs_reach_to_the_end_however_many_there_are() -> None:
    """450 checkpoints are seen all along, and each stretch of time says how many it stands for."""
    saved = tuple(Mark(MarkerKind.CHECKPOINT, n * 100 / 450, "worker:0", f"step {n}") for n in range(450))
    line = gang(2, marks=saved)
    places = signs(line, "checkpoint")
    assert len(places) <= 100
    assert max(places) > 99.5
    assert max(right - left for left, right in itertools.pairwise(places)) < 2.5
    assert "step 449" in draw(line).picture
    assert " of 5 since " in draw(line).picture


def test_the_newest_failure_is_seen() -> None:
    """Of a job that fails and restarts again and again, too, and in its lane."""
    failed = tuple(Mark(MarkerKind.FAILURE, n / 10, "worker:0", f"failure {n}") for n in range(1000))
    line = gang(2, marks=failed)
    assert max(signs(line, "failure")) == pytest.approx(99.9)
    assert "failure 999" in draw(line).picture


def test_a_picture_of_very_much_stays_small() -> None:
    """Tens of thousands of restarts and checkpoints of many tasks."""
    spans, marks = [], []
    for index in range(40):
        for n in range(500):
            spans.append(Span(f"worker:{index}", n + 1, 1, TaskPhase.RUNNING, n / 5, (n + 1) / 5, held=True))
            marks += [Mark(MarkerKind.FAILURE, n / 5, f"worker:{index}"), Mark(MarkerKind.RESTART, n / 5)]
    sessions = tuple(SessionSpan(n + 1, n / 5, (n + 1) / 5, "again") for n in range(500))
    line = gang(1, spans=tuple(spans), marks=tuple(sorted(marks, key=lambda mark: mark.at)), sessions=sessions)
    drawing = draw(line)
    assert len(drawing.picture) < 1 << 20
    assert len(drawing.labels) == 40
    assert len(drawing.picture) == pytest.approx(len(draw(replace(line, marks=line.marks * 3)).picture), rel=0.1)


def test_a_stall_is_no_user_request() -> None:
    drawing = draw(gang(2, marks=(Mark(MarkerKind.STALL, 50.0, "worker:1", "no further step"),)))
    assert "stall" in drawing.shown
    assert "command" not in drawing.shown
