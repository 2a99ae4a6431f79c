"""The command lines: `openinfer` and `openinfer-opt`."""
