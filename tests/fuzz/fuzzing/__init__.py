"""Differential fuzzing of whole programs: a generator, an oracle with error bounds, a shrinker."""
