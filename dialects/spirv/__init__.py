"""SPIR-V: the table of its instructions."""
