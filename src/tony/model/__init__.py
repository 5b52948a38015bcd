"""Nouns: frozen values that every part speaks of. No I/O, no decisions."""
