"""Passes from level to level, and the reference semantics."""
