"""Hugging Face models: loading, tokens, batches, log-likelihoods, generation."""
