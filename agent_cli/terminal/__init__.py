"""Terminal output shared by all front ends, safe for untrusted text."""
