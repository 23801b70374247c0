"""Read prompts kept in Markdown files with front matter."""
