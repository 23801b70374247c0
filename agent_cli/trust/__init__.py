"""Store which workspaces are trusted, and describe the effects of trusting one."""
