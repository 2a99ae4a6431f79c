"""A language model of a million parameters, with everything that it was made from."""
