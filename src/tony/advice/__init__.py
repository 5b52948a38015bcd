"""Recommendations that make a job cheaper or safer, each with evidence, saving and a change to the job file.

`facts_loader` reads job directories into `facts` (pure). `engine` runs every heuristic over them: those in
`heuristics/`, and those that other packages register under the entry point `tony.advice`. A heuristic (`heuristic`) is
a table of thresholds, a help text and a function from facts to a `recommendation`. `patch` applies the suggested
changes to a job file and keeps its comments and order.
"""
