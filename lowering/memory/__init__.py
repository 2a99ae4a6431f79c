"""Passes over buffers: copies, kernels, the arena plan, run-time sizes."""
