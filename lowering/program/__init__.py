"""What every way into the compiler shares: the one checker of programs, over the `graph` dialect."""
