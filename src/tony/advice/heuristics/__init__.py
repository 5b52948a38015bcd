"""One heuristic per file, with its thresholds and its help page."""
