"""Counts in the form of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_SECONDS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
Reading = tuple[str, str, float]
"""Metric, its label, its value."""


class Metrics:
    """A registry of its own for each server."""

    def __init__(self, read: Callable[[], Iterable[Reading]]) -> None:
        """`read` gives what is looked up when it is asked for; names in `_total` only grow."""
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "vlagent_requests_total", "Requests answered", ("path", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "vlagent_request_seconds", "Time to answer", ("path",), buckets=_SECONDS, registry=self._registry
        )
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self.open_requests = 0
        self._read = read
        self._registry.register(self)

    def count(self, path: str, status: int, seconds: float) -> None:
        """One request."""
        known = self._known.get((path, status))
        if known is None:
            known = self._known[path, status] = self._requests.labels(path, str(status)), self._seconds.labels(path)
        known[0].inc()
        known[1].observe(seconds)

    def collect(self) -> Iterable[Metric]:
        """What Prometheus asks of a collector."""
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for name, label, value in [*self._read(), ("vlagent_open_requests", "", float(self.open_requests))]:
            if name not in families:
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                families[name] = kind(name, name.removeprefix("vlagent_").replace("_", " "), labels=("of",))
            families[name].add_metric((label,), value)
        return families.values()

    def page(self) -> bytes:
        """The text that is scraped."""
        return generate_latest(self._registry)
