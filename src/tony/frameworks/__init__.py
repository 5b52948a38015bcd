"""One module per machine-learning framework: the environment variables that its programs need. Pure functions."""
