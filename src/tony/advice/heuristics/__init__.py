"""One heuristic a file: its thresholds, its help page, and what it looks for."""
