"""Level `buffers`: a buffer for every value, a function for every kernel, a place in memory for all."""
