"""Passes that make an imported graph readable; a package of passes over level `graph`."""
