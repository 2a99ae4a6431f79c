"""Which thread does what: shares of loops, and the entry through which the team joins a step."""
