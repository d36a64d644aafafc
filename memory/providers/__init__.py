"""Chat models: the contract, the OpenAI-compatible client, and the built-in offline model."""
