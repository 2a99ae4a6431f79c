"""Sentence embeddings with all-MiniLM-L6-v2: `python -m examples.minilm "a sentence" "another"`."""
