"""The inference compiler that you can read."""
