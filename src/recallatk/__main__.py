"""The command `recallatk`, which is the same as `python -m recallatk`."""

from __future__ import annotations

import signal
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; Ctrl-C ends it in one line, whatever it is importing or closing just then."""
    try:
        from recallatk.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("recallatk: stopped\n")
        sys.exit(INTERRUPTED)
    finally:
        # Everything is done and said: Python would still die of a signal while it closes its modules.
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_IGN)


if __name__ == "__main__":
    main()
