"""Images in requests to models on this machine: settings, prompts with placeholders,
and decoding."""
