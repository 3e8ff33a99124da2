"""What an operator sees of the gateway: log lines, metrics, traces, and snapshots of governed replies.

Everything here consumes the record of an exchange after the exchange has ended, so nothing here delays a
stream. The package reads records, and never the exchange itself.

- `log`: log lines on standard error; `make_printable` for text from outside. `short_line`: for terminals.
- `log_file`: writes the lines; the log file of a gateway in the background.
- `instruments`: `Counter`, `Histogram`, and the text format of Prometheus.
- `metrics`: `Metrics` owns the counters of one gateway since its start.
- `spans`: `ExchangeTracer` sends OpenTelemetry spans to a collector. Needs the extra `otel`.
- `reply_snapshots`: `SnapshotWriter` writes governed replies to files, before and after.
- `otlp`: reads the telemetry that agents send.
- `redaction`: removes secrets from text; `Redactor` knows those of one provider.

A server constructs `Metrics`, `SnapshotWriter` and perhaps `ExchangeTracer` once, registers their functions
as consumers of records, and calls `close` on the last two at the end.
"""
