"""OpenAI's interface over HTTP for a language model: requests, the slots that answer them, replies."""
