"""Read-only sessions in a PostgreSQL that is in use: one snapshot per transaction, and errors that help."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from recallatk.adapters.postgres_server import connected
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from recallatk.adapters.collection import CollectionTarget
    from recallatk.adapters.probe_limits import ProbeLimits

_ENGINE, _APPLICATION = "pgvector", "recallatk"
# A probe that waits for a lock would make others wait behind it.
_LOCK_SECONDS = 2
# Between two statements of a probe on a busy machine.
_IDLE_MILLISECONDS = 2_000
# What a relation is made of: the tables below a view or its partitions, and their indexes on vectors. Each
# with the file that holds its rows, which changes when it is truncated or rebuilt.
_FILES = """
WITH RECURSIVE parts AS (
  SELECT %s::oid AS part
  UNION
  SELECT below.part FROM parts CROSS JOIN LATERAL (
    SELECT refobjid AS part FROM pg_rewrite
    JOIN pg_depend ON classid = 'pg_rewrite'::regclass AND objid = pg_rewrite.oid
    WHERE ev_class = parts.part AND refclassid = 'pg_class'::regclass
    UNION SELECT inhrelid FROM pg_inherits WHERE inhparent = parts.part
    UNION SELECT indexrelid FROM pg_index JOIN pg_opclass ON pg_opclass.oid = indclass[0]
    WHERE indrelid = parts.part AND indisvalid AND opcname ~ '^(vector|halfvec|bit|sparsevec)_'
  ) AS below
)
SELECT part::bigint, pg_relation_filenode(part)::bigint FROM parts ORDER BY part"""


class ReadOnlySession:
    """One connection, whose transactions cannot write and leave nothing behind.

    Args:
        target: names the server, the database and the table.
        limits: time limits.
    """

    def __init__(self, target: CollectionTarget, limits: ProbeLimits) -> None:
        self.name, self.limits = target.options["table"], limits
        self.connection = connected(
            target.url, _ENGINE, bundled=False, connect_timeout=max(1, round(limits.connect_seconds)),
            application_name=_APPLICATION,
        )  # fmt: skip
        # Prepared statements would stay in the session, and poolers refuse them.
        self.connection.prepare_threshold = None

    @contextmanager
    def transaction(self, settings: Mapping[str, str]) -> Iterator[None]:
        """One read-only snapshot with these settings; afterwards nothing of it is left.

        Args:
            settings: parameters of the search by their names.
        """
        import psycopg

        # A limit of 0 would be none.
        milliseconds = max(1, round(self.limits.seconds * 1000))
        try:
            run = self.connection.execute
            run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            run(f"SET LOCAL statement_timeout = {milliseconds}")
            run(f"SET LOCAL lock_timeout = {_LOCK_SECONDS * 1000}")
            run(f"SET LOCAL idle_in_transaction_session_timeout = {max(milliseconds, _IDLE_MILLISECONDS)}")
            for name, value in settings.items():
                run("SELECT set_config(%s, %s, true)", (name, value))
            yield
        except psycopg.Error as problem:
            raise EngineError(f"{self.name}: {self._reason(problem)}") from None
        finally:
            if not self.connection.closed:
                with suppress(psycopg.Error):
                    self.connection.execute("ROLLBACK")

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows of a statement."""
        found: list[Any] = self.connection.execute(statement, values or None).fetchall()
        return found

    def files(self, relation: int) -> list[Any]:
        """The files of a relation and its indexes on vectors: others once one is truncated or rebuilt."""
        return self.rows(_FILES, (relation,))

    def close(self) -> None:
        """Disconnect."""
        if not self.connection.closed:
            self.connection.close()

    def _reason(self, problem: Exception) -> str:
        """What went wrong, and what to do about it."""
        from psycopg import OperationalError, errors

        said = " ".join(str(problem).strip().split("\n")[0].split())
        if isinstance(problem, errors.QueryCanceled):
            return (
                f"a statement exceeded the time limit of {self.limits.seconds:g} s. Raise it with --timeout, "
                "or avoid exact scans: --corpus FILE or --truth stream"
            )
        if isinstance(problem, errors.InsufficientPrivilege):
            return (
                f"this role may not read it: {said}. Let it read the table: GRANT USAGE ON SCHEMA ... and "
                "GRANT SELECT ON ... to the role of the probe"
            )
        if isinstance(problem, errors.LockNotAvailable):
            return (
                f"another session holds a lock on the table: {said} after {_LOCK_SECONDS} s. Start the probe "
                "again once that session is done"
            )
        if isinstance(problem, OperationalError):
            lost = "the connection was lost: " if self.connection.closed else ""
            return f"{lost}{said}. Start the probe again once the server answers"
        return said
