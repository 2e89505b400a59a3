"""The gateway: the stock LiteLLM in its own environment, or none at all."""
