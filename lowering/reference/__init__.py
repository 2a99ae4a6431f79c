"""The reference semantics: a NumPy twin per op, and the simulator that interprets `graph`."""
