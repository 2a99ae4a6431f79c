"""Language models from GGUF files beside llama.cpp: the workload group W7."""
