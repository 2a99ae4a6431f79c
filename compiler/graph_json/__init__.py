"""Graph JSON, the form in which programs travel: `docs/graph-json.md` describes it."""
