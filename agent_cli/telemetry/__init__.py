"""OpenTelemetry: spans and metrics of agents in the GenAI conventions, exported over OTLP.

It needs the extra `otel`, and is not imported unless `telemetry.enabled` is set.
"""
