"""Reports for GitHub: Markdown for a pull request, and annotations of files."""
