"""Images in requests to models on this machine."""
