"""Probes as Prometheus metrics: for the node exporter's folder of text files, or served over HTTP."""

from __future__ import annotations

import ipaddress
import math
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.errors import UsageError, WriteError, needing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.probed import Probed
    from recallatk.files import PathLike

_LABELS = ("collection", "k")
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, math.inf)


class ProbeMetrics:
    """Metrics of the probes of one watch; the label of all is the target as probes show it."""

    def __init__(self) -> None:
        with needing("prometheus_client", "prometheus"):
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.collection = ""
        self.registry = CollectorRegistry()

        def gauge(name: str, said: str, *more: str) -> Any:
            return Gauge(f"recallatk_{name}", said, (*_LABELS, *more), registry=self.registry)

        self._recall = gauge("recall_ratio", "Recall of the last probe, with its 95 % interval.", "bound")
        self._queries = gauge("queries", "Queries in the mean of the last probe.")
        self._short = gauge("short_answers_ratio", "Answers with fewer rows than k, although more pass.")
        self._used = gauge("index_used_ratio", "Calls that used the index, of those known.")
        self._met = gauge("target_met", "1 for PASS, 0 for FAIL, NaN if undecided or without a target.")
        self._last = gauge("last_success_timestamp_seconds", "End of the last probe that succeeded.")
        self._latency = Histogram(
            "recallatk_latency_seconds", "Latency of a search, as the probe saw it.", _LABELS,
            buckets=_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self._failed = Counter(
            "recallatk_failed_probes", "Probes without a result.", ("collection",), registry=self.registry
        )

    def observe(self, probed: Probed) -> None:
        """Replace the gauges by a probe, and add its calls to the histogram."""
        self.collection = probed.target
        # Present from the first probe on, so that its increase is seen.
        self._failed.labels(self.collection)
        labels = (self.collection, str(probed.k))
        recall, counts = probed.recall, probed.counts
        for bound, value in (("mean", recall.value), ("lower", recall.low), ("upper", recall.high)):
            self._recall.labels(*labels, bound).set(_number(value))
        self._queries.labels(*labels).set(recall.n)
        self._short.labels(*labels).set(counts.short / counts.asked if counts.asked else math.nan)
        self._used.labels(*labels).set(_number(probed.index_used))
        met = probed.verdict.met
        self._met.labels(*labels).set(_number(None if met is None else float(met)))
        self._last.labels(*labels).set_to_current_time()
        for each in probed.per_query.get("latency_ms", ()):
            self._latency.labels(*labels).observe(float(each) / 1e3)

    def fail(self) -> None:
        """Count a probe without a result; the gauges keep what the last one found."""
        self._failed.labels(self.collection).inc()

    def write(self, path: PathLike) -> None:
        """Write all metrics atomically, as the node exporter reads them."""
        from prometheus_client import write_to_textfile

        try:
            write_to_textfile(str(Path(path)), self.registry)
        except OSError as problem:
            raise WriteError(path, problem.strerror or str(problem)) from problem

    @contextmanager
    def served(self, address: str) -> Iterator[str]:
        """Serve them at an address such as 127.0.0.1:9464 for the time of a block; its URL.

        Args:
            address: host and port; port 0 takes a free one.
        """
        from prometheus_client import start_http_server

        host, port = _host_and_port(address)
        try:
            server, thread = start_http_server(port, host, self.registry)
        except OSError as problem:
            raise UsageError(f"--listen {address}: {problem.strerror or problem}") from None
        try:
            shown = f"[{host}]" if ":" in host else host
            yield f"http://{shown}:{server.server_port}/metrics"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _host_and_port(address: str) -> tuple[str, int]:
    """The parts of an address; a port alone listens to this machine only."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"--listen {address}: not an address. Accepted: 127.0.0.1:9464")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if host != "localhost":
            raise UsageError(f"--listen {address}: not an IP address. Accepted: 127.0.0.1:9464") from None
        host = "127.0.0.1"
    return host, int(port)
