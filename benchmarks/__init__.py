"""Measurements: what the generated code reaches, side by side with its peers."""
