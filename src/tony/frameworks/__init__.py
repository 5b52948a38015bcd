"""One module per machine-learning framework: what its programs need in their environment. Pure functions."""
