"""The line being typed: the draft, what stands in it for more, and what completes it."""
