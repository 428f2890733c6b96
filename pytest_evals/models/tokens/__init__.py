"""Tokenization: what the model kinds hf, vllm and openai share."""
