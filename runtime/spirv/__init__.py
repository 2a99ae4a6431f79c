"""SPIR-V: the table of its instructions, its words, and what is checked before a driver sees them."""
