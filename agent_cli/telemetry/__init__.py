"""OpenTelemetry: spans and metrics of what agents do, in the GenAI conventions, sent by OTLP.

It needs the extra `otel`. Nothing else imports it before `telemetry.enabled` is set.
"""
