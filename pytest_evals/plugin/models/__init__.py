"""The session's models: opened once each, asked through one plan each."""
