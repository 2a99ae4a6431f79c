"""Foreign models become programs: a reader for each format, and what they share."""
