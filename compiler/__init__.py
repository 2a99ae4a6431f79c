"""Text in, artefact out: frontend, pipeline, tools."""
