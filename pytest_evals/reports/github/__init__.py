"""What GitHub shows: Markdown for a pull request, and marks at lines of files."""
