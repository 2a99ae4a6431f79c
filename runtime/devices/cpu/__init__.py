"""The device `cpu`: the only place that loads llvmlite."""
