"""What `openinfer inspect` finds out about a program: facts, and a picture of its control flow."""
