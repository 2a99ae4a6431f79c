"""The step as scalar code, for every machine: state, checks, sizes, stamps, polls for signals."""
