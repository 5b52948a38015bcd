"""Heuristics by what they are about; each has its thresholds and its help page."""
