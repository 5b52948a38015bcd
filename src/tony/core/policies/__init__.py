"""Policies: one pure function each, returning a decision with a sentence of reason."""
