"""What tony costs: one small file per row of the table that `make bench` prints.

    make bench                                   every row, one table
    .venv/bin/python -m bench startup memory     some rows
    .venv/bin/python -m bench startup --quick    a tiny sample, to see that it runs; nothing is kept

Each run prints the machine's size and load, and keeps its result in `bench/results.md`: a section per row, replaced in
place. No test asserts a time. How to write a row:

    \"\"\"What is measured, against what, and what is left out.\"\"\"

    TITLE = "A job of four tasks, start to end"

    def measure(quick: bool) -> Result:
        rounds = interleaved({"tony": ..., "bare": ...}, 2 if quick else 9)
        return Result(lines=(rounds.line("start to end", "tony", "wall", against="bare", target=at_most_times(6)),))

and its name goes into `ROWS` of `bench/__main__.py`. The pieces:

- `harness.interleaved(ways, rounds)` calls every way once per round, in turning order, after a round that is not
  counted; each call answers figures by name, in seconds, bytes or whatever the line's unit says. Medians are of the
  rounds; a ratio is the median of the rounds' own ratios, so that a machine whose speed drifts does not bend it.
  A figure called `cpu` (seconds of user and system time of all processes involved) is shown next to every time of
  that way: on a loaded machine it says more than the wall clock.
- `harness.Line` is one line of the table, for figures that come from elsewhere. `Line.missing("torchrun", "no Python
  with torch")` says why one could not be measured; `CannotRunError("...")`, raised in `measure`, says it for the
  whole row.
- `measured_processes.Workshop` is a clean home, an empty source folder and the `tony` of this environment; it waits
  for every process of its jobs and adds up their CPU time, and leaves none behind.
- `small_cluster.SmallCluster` is a real Hadoop inside a workshop, for as long as a row needs it.
"""
