"""The input line: the draft, marks in it for larger content, and completion."""
