"""Run many prompts over many folders or git refs; each task gets one result."""
