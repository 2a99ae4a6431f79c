"""Language models: text to tokens and back, chat templates, sampling, the engine that runs a model."""
