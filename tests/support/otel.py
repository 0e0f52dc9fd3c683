"""OpenTelemetry's SDK in memory, set up once per test run, as it can only be; tests take the fixture `sinks`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

Told = dict[str, dict[frozenset[tuple[str, Any]], Any]]


class _Spans(SpanExporter):
    """Keeps spans while a test looks."""

    def __init__(self) -> None:
        self.kept: list[ReadableSpan] | None = None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self.kept is not None:
            self.kept += spans
        return SpanExportResult.SUCCESS


class Sinks:
    """What telemetry told since the test began."""

    def __init__(self, spans: _Spans, reader: InMemoryMetricReader) -> None:
        self._spans = spans
        self._reader = reader
        spans.kept = []
        reader.get_metrics_data()

    @property
    def spans(self) -> list[ReadableSpan]:
        """The ended spans."""
        return list(self._spans.kept or ())

    def metrics(self) -> Told:
        """Name → attributes → value (of a histogram, how often); what was told since the last look."""
        data = self._reader.get_metrics_data()
        told: Told = {}
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = told.setdefault(metric.name, {})
                    for point in metric.data.data_points:
                        value = point.count if isinstance(point, HistogramDataPoint) else point.value
                        points[attributes(point.attributes or {})] = value
        return told


def attributes(given: Mapping[str, Any]) -> frozenset[tuple[str, Any]]:
    """Attributes as a key; the common prefix left out."""
    return frozenset((name.removeprefix("ledgeragent."), value) for name, value in given.items())


@cache
def sdk() -> tuple[_Spans, InMemoryMetricReader]:
    """The providers, set when they are first asked for."""
    spans = _Spans()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(tracers)
    delta = {Counter: AggregationTemporality.DELTA, Histogram: AggregationTemporality.DELTA}
    reader = InMemoryMetricReader(preferred_temporality=delta)
    metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))
    return spans, reader


@contextmanager
def listening() -> Iterator[Sinks]:
    """Empty sinks for a `with` block."""
    spans, reader = sdk()
    try:
        yield Sinks(spans, reader)
    finally:
        spans.kept = None
