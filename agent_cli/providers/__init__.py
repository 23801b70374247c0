"""Model providers: the only package that uses anthropic, httpx2 and tenacity."""
