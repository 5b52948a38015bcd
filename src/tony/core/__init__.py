"""The decision machine. No I/O, no clock, no randomness: events in, actions out."""
