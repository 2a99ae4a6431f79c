"""What the schedules of every machine are built from: loops, nests, epilogues, elements, functions."""
