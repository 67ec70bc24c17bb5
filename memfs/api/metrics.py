"""What Prometheus is told."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from memfs import __version__

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, which nobody asked for

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)
MEDIA_TYPE = CONTENT_TYPE_LATEST

NO_ROUTE = "none"
"""The route of a request to a path that there is not: its own path would make a series of each."""


class Metrics:
    """The figures of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "memfs_http_requests", "Answered requests.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "memfs_http_request_seconds",
            "Time from a request's first line to the end of its answer; of streams, to their beginning.",
            ("method", "route"),
            buckets=SECONDS,
            registry=self._registry,
        )
        self.in_progress = Gauge("memfs_http_requests_in_progress", "Requests at work.", registry=self._registry)
        self.streams = Gauge("memfs_change_streams", "Open streams of changes.", registry=self._registry)
        self.refused = Counter(
            "memfs_http_refused", "Requests without a valid key, or over the rate.", ("why",), registry=self._registry
        )
        Gauge("memfs_info", "The version that runs.", ("version",), registry=self._registry).labels(__version__).set(1)
        ProcessCollector(registry=self._registry)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(method, route).observe(seconds)

    def text(self) -> bytes:
        """All figures, in Prometheus's text format."""
        return generate_latest(self._registry)
