"""The connection to a Ray cluster, and everything that is checked before work is sent to it."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.errors import MissingExtraError, UsageError, unknown
from recallatk.redaction import redact_text, without_secrets
from recallatk.scratch import ScratchFolder
from recallatk.units import counted, mebibytes
from recallatk.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from recallatk.core import Corpus
    from recallatk.files import PathLike

# For a Ray of our own: nothing is reported, and every port is on the loopback interface.
_PRIVATE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_enable_metrics_collection": "0",
}
# Ray prints what becomes of its workers to standard output, where results belong; errors say it again.
_SILENT = {"RAY_DEDUP_LOGS_SKIP_REGEX": ".*", "RAY_DEDUP_LOGS": "1"}
# Sockets lie below it, and their paths may have 107 characters.
_LONGEST_TEMPORARY = 40
_OBJECT_STORE = 512 << 20
_OOM_RETRIES = 3
_REACH_SECONDS = 5
_ANSWER_SECONDS = 120
_CLIENT_PORT = 10001


@dataclass(frozen=True)
class RayCluster:
    """Where to compute on Ray."""

    address: str | None = None
    """`auto`, `ray://HOST:PORT` or `HOST:PORT`; None starts Ray on this machine."""
    checkpoints: str | None = None
    """Folder or URL for finished shards that all nodes reach; by default in the store."""


def on_cluster(on: str | None, address: str | None, checkpoints: PathLike | None) -> RayCluster | None:
    """Where to compute: on a Ray cluster, or None for this process."""
    if on is None:
        if address is not None or checkpoints is not None:
            raise UsageError("an address or checkpoints without Ray. Add on='ray' (--on ray)")
        return None
    if on != "ray":
        raise UsageError(unknown("place to compute on", on, ["ray"]))
    return RayCluster(address, None if checkpoints is None else os.fspath(checkpoints))


@dataclass(frozen=True, eq=False)
class RayConnection:
    """A cluster that is ready."""

    ray: ModuleType
    slots: int
    """How many tasks fit at the same time."""


@contextmanager
def connected(cluster: RayCluster, threads: int, memory: int) -> Iterator[RayConnection]:
    """Connect to a cluster, or start one, with room for tasks of this much memory.

    A connection that exists already is used, and left open.
    """
    with _environment(_SILENT | (_PRIVATE if cluster.address is None else {})):
        ray = _imported()
        if ray.is_initialized():
            yield RayConnection(ray, _slots(ray, memory))
            return
        with _temporary(cluster.address) as folder:
            try:
                with _own_signals():
                    _connect(ray, cluster.address, threads, folder)
                yield RayConnection(ray, _slots(ray, memory))
            finally:
                ray.shutdown()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the handlers of this process: Ray's would abort it where it is asked to end."""
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                if handler is not None:
                    signal.signal(number, handler)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _imported() -> Any:
    try:
        import ray
    except ImportError as problem:
        raise MissingExtraError("Ray", "ray") from problem
    return ray


@contextmanager
def _temporary(address: str | None) -> Iterator[str | None]:
    """A folder for the files of a Ray of our own; Ray's usual one where its path would be too long."""
    if address is not None:
        yield None
        return
    with ScratchFolder() as folder:
        yield str(folder) if len(str(folder)) <= _LONGEST_TEMPORARY else None


def _connect(ray: Any, address: str | None, threads: int, folder: str | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is not None:
        _require_reachable(address)
        try:
            ray.init(address=address, **quiet)
        except ImportError as problem:
            raise UsageError(
                f"{address}: ray:// needs gRPC: pip install 'ray[client]'. Or submit the command as a job "
                "and use --address auto"
            ) from problem
        except Exception as problem:
            raise UsageError(
                f"{without_secrets(address)}: cannot connect to Ray: {_said(problem)}. A cluster with token "
                "authentication needs RAY_AUTH_MODE=token here"
            ) from problem
        return
    ray.init(
        num_cpus=threads,
        include_dashboard=False,
        object_store_memory=_OBJECT_STORE,
        _node_ip_address="127.0.0.1",
        # Without a limit, a task that memory has no room for would be killed and tried for ever.
        _system_config={"task_oom_retries": _OOM_RETRIES},
        _temp_dir=folder,
        **quiet,
    )


def _require_reachable(address: str) -> None:
    """Refuse an address at which nothing listens: Ray itself would wait for minutes."""
    host, _colon, port = address.removeprefix("ray://").partition(":")
    if address in ("auto", "local"):
        return
    port = port or (str(_CLIENT_PORT) if address.startswith("ray://") else "")
    if not host or not port.isdecimal():
        raise UsageError(f"--address {address!r}. Accepted: auto, ray://HOST:PORT or HOST:PORT")
    try:
        socket.create_connection((host, int(port)), _REACH_SECONDS).close()
    except (OSError, OverflowError) as problem:
        raise UsageError(
            f"--address {address}: no Ray cluster can be reached there: {problem}. Start one: "
            "ray start --head"
        ) from problem


def _slots(ray: Any, memory: int) -> int:
    """How many tasks with one CPU and this much memory fit into the cluster."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    slots = sum(min(int(each.get("CPU", 0)), int(each.get("memory", 0) // memory)) for each in nodes)
    if not slots:
        cpus = max((int(each.get("CPU", 0)) for each in nodes), default=0)
        largest = max((each.get("memory", 0) for each in nodes), default=0)
        raise UsageError(
            f"no node of the cluster has room for a task with 1 CPU and {mebibytes(memory, 0)}. The largest "
            f"of {counted(len(nodes), 'node', 'nodes')} has {counted(cpus, 'CPU', 'CPUs')} and "
            f"{mebibytes(largest, 0)}. Lower --memory, or add nodes"
        )
    return slots


def require_ready(connection: RayConnection, reopen: Callable[[], Corpus], corpus: Corpus) -> None:
    """Refuse nodes with another version of this tool or of Python, and nodes that cannot read the corpus."""
    own = (__version__, _python())

    # Nested, so that Ray sends the code itself and a node needs nothing installed to answer.
    def versions() -> tuple[str | None, str]:
        import platform

        found: str | None = None
        try:
            import recallatk.version

            found = recallatk.version.__version__
        except ImportError:
            pass
        return found, platform.python_version().rpartition(".")[0]

    for node, found in _on_every_node(connection, versions).items():
        if isinstance(found, Exception):
            raise UsageError(f"node {node} does not answer: {_said(found)}")
        if found != own:
            theirs = "no recallatk" if found[0] is None else f"recallatk {found[0]}"
            raise UsageError(
                f"node {node} has {theirs} on Python {found[1]}, this process recallatk {own[0]} on "
                f"Python {own[1]}. Install the same versions on every node"
            )
    expected = (corpus.vectors.shape, corpus.vectors.dtype.name)
    for node, seen in _on_every_node(connection, opened_shape, reopen).items():
        if isinstance(seen, (Exception, str)):
            raise UsageError(
                f"node {node} cannot read the corpus: {_said(seen)}. Put it where every node reads it, such "
                "as s3:// or a shared disk"
            )
        if seen != expected:
            (rows, dimension), kind = seen
            raise UsageError(
                f"node {node} reads another corpus: {rows:,} x {dimension:,} {kind}, not "
                f"{corpus.rows:,} x {corpus.dimension:,} {expected[1]}"
            )


def opened_shape(reopen: Callable[[], Corpus]) -> tuple[tuple[int, int], str] | str:
    """Shape and type of the corpus as a node sees it, or what keeps it from being read."""
    from recallatk.errors import RecallError

    try:
        vectors = reopen().vectors
    except RecallError as problem:
        return str(problem)
    return vectors.shape, vectors.dtype.name


def _python() -> str:
    import platform

    return platform.python_version().rpartition(".")[0]


def _on_every_node(
    connection: RayConnection, function: Callable[..., Any], *arguments: Any
) -> dict[str, Any]:
    """What a function returns on each node, or its exception."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray = connection.ray
    asked = {}
    for node in ray.nodes():
        if node["Alive"]:
            where = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(function).options(num_cpus=0, scheduling_strategy=where, max_retries=1)
            asked[f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})"] = task.remote(*arguments)
    found: dict[str, Any] = {}
    for node, reference in asked.items():
        try:
            found[node] = ray.get(reference, timeout=_ANSWER_SECONDS)
        except Exception as problem:
            # Whatever a node fails with, the user learns which one and why.
            found[node] = problem
    return found


def _said(problem: Exception | str) -> str:
    # An error of a task has the traceback in its text; the others begin with what matters.
    cause = getattr(problem, "cause", None) or problem
    return redact_text(" ".join(str(cause).split()))[:300].rstrip(".")
