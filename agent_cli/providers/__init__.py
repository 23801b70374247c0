"""Everything that talks to a model: the only place that knows anthropic, httpx2 and tenacity."""
