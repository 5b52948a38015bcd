"""The AM's side of YARN: containers requested, launched, tracked and ended; nodes that are avoided."""
