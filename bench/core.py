"""The machine that decides, with 10,000 tasks in it: events per second for each kind, and the replay of a long log.

Events go through `Application.handle`, one by one; nothing is logged and nothing performed. A kind's
rate counts all its events, the rare expensive one as well (the registration that completes a gang). Replay is that of
100,000 events from a log with its digests, in a fresh interpreter with another hash seed each time, compared
with reading the same lines as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from bench import event_sequences
from bench.harness import CannotRunError, Figures, Line, Result, Rounds, Unit, at_least, at_most, interleaved
from bench.measured_processes import Workshop
from tony.core.application import Application
from tony.core.events import Snapshot
from tony.history.event_log import FORMAT, VERSION, Header, LogWriter, settings_digest
from tony.model.codec import to_plain
from tony.model.job_spec import JobSpec
from tony.model.states import JobState

TITLE = "The machine that decides, and replay"

#: The application master logs a digest so often, or as often as it has tasks if they are more.
_SNAPSHOT_EVERY = 2000
_TARGET = at_least(50_000)
_REPLAY_TIME = 5.0
_ORDINARY = ("granted", "registered", "started", "first-output", "exited", "container-ended")
_TROUBLED = ("queued", "action-failed", "silent", "deadline")
_REPLAY = """\
import json, sys
from pathlib import Path
from tony.history.event_log import read, segments
from tony.history.replay import replay
from tony.model.codec import from_plain
from tony.model.job_spec import JobSpec
folder = Path(sys.argv[1])
spec = from_plain(JobSpec, json.loads((folder / "spec.json").read_text()))
done = replay("bench", spec, read(segments(folder)))
print(json.dumps([done.events, done.checked, done.mismatch]))
"""
_JSON = """\
import json, sys
for line in open(sys.argv[1]):
    json.loads(line)
"""


def measure(quick: bool) -> Result:
    """The two lives, then the replay."""
    tasks = 100 if quick else 10_000
    rounds, discard = (1, 0) if quick else (5, 1)
    both = {
        "ordinary": lambda: _live(
            event_sequences.ordinary_spec(tasks), event_sequences.ordinary(tasks), JobState.SUCCEEDED
        ),
        "troubled": lambda: _live(
            event_sequences.troubled_spec(tasks), event_sequences.troubled(tasks), JobState.STOPPING
        ),
    }
    stories = interleaved(both, rounds, discard=discard)
    with Workshop() as shop:
        log, events = _write_log(shop.path, tasks)
        seeds = iter(range(1, 1000))
        replays = interleaved(
            {
                "replay": lambda: _replay(shop, next(seeds), events),
                "json": lambda: shop.run([sys.executable, "-c", _JSON, str(log)]).figures,
            },
            rounds,
            discard=discard,
        )
    lines = [*_lines(stories, "ordinary"), *_lines(stories, "troubled"), *_slow(stories)]
    lines.append(
        replays.line(f"replay of {events:,} events", "replay", "wall", against="json", target=at_most(_REPLAY_TIME))
    )
    lines.append(replays.line("state digests met in it", "replay", "checked", unit=Unit.COUNT))
    return Result(lines=tuple(lines), notes=(f"{tasks:,} tasks; json: only reads the log's lines as JSON",))


def _live(spec: JobSpec, story: event_sequences.Story, end: JobState) -> Figures:
    """`<kind>` -> events per second, `<kind> at most` -> seconds of the longest one; `all` -> of all kinds."""
    app = Application("bench", spec)
    spent: dict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    longest: dict[str, float] = defaultdict(float)
    for event, at in list(story):
        begin = time.perf_counter()
        app.handle(event, at)
        took = time.perf_counter() - begin
        spent[event.kind] += took
        counts[event.kind] += 1
        longest[event.kind] = max(longest[event.kind], took)
    if app.state.job is not end or app.state.refused:
        raise CannotRunError(f"the story is wrong: {app.state.job.value}, {app.state.refused} events refused")
    begin = time.perf_counter()
    app.compute_digest()
    return {
        **{kind: counts[kind] / spent[kind] for kind in counts},
        **{f"{kind} at most": seconds for kind, seconds in longest.items()},
        "all": counts.total() / sum(spent.values()),
        "digest": time.perf_counter() - begin,
    }


def _lines(stories: Rounds, life: str) -> list[Line]:
    """The rate of all events of a life, and of each kind of which there is one for every task."""
    kinds = {"ordinary": _ORDINARY, "troubled": _TROUBLED}[life]
    rate = Unit.PER_SECOND
    lines = [stories.line(f"all events, {life} life", life, "all", unit=rate, target=_TARGET)]
    lines += [stories.line(f"  {kind}", life, kind, unit=rate, target=_TARGET) for kind in kinds]
    return lines


def _slow(stories: Rounds) -> list[Line]:
    """What concerns every task at once, and happens a few times in a job's life."""
    return [
        stories.line("a session opens", "ordinary", "session-opened at most"),
        stories.line("the gang is complete", "ordinary", "registered at most"),
        stories.line("a task fails, all are stopped", "ordinary", "exited at most"),
        stories.line("the job is killed", "troubled", "kill-requested at most"),
        stories.line("a state digest", "ordinary", "digest"),
    ]


def _write_log(folder: Path, tasks: int) -> tuple[Path, int]:
    """The ordinary life as an event log with digests, as an application master writes it; answers how long it is."""
    spec = event_sequences.ordinary_spec(tasks)
    (folder / "spec.json").write_text(json.dumps(to_plain(spec)), encoding="utf-8")
    path = folder / "events.1.jsonl"
    header = Header(format=FORMAT, version=VERSION, job="bench", attempt=1, settings=settings_digest(spec))
    writer = LogWriter(path, header)
    app = Application("bench", spec)
    last = 0
    for number, (event, at) in enumerate(event_sequences.ordinary(tasks), start=1):
        app.handle(event, at)
        last = writer.append(event, at, at)
        if number % max(_SNAPSHOT_EVERY, tasks) == 0:
            last = writer.append(Snapshot(digest=app.compute_digest()), at, at)
    writer.close()
    return path, last


def _replay(shop: Workshop, seed: int, events: int) -> Figures:
    """In an interpreter whose sets and dictionaries of strings have another order than here."""
    done = shop.run(["env", f"PYTHONHASHSEED={seed}", sys.executable, "-c", _REPLAY, str(shop.path)])
    replayed, checked, mismatch = json.loads(done.output)
    if mismatch or replayed != events:
        raise CannotRunError(f"the replay went wrong after {replayed} of {events} events: {mismatch}")
    return {**done.figures, "checked": checked}
