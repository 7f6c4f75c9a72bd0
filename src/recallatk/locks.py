"""Advisory locks on open files; the system releases them when their holder ends."""

from __future__ import annotations

import errno
import sys

if sys.platform != "win32":
    import fcntl

# Some network file systems have no locks.
_WITHOUT_LOCKS = frozenset([errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP])


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file for this process alone, without waiting.

    Returns:
        True if it is locked now, False if another process holds it, None if the system has no locks.
    """
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as problem:
        if problem.errno in _WITHOUT_LOCKS:
            return None
        raise
    return True
