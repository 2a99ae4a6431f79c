"""From the program as written to values: binding, liveness, op rules."""
