"""What compiler and simulator share of a program: its view, nodes, sources, and the one checker."""
