"""The command `recallatk`, also available as `python -m recallatk`."""

from __future__ import annotations

import signal
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; Ctrl-C ends it with one line, even during imports and shutdown."""
    try:
        from recallatk.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("recallatk: stopped\n")
        sys.exit(INTERRUPTED)
    finally:
        # Ignore signals during interpreter shutdown, when they would print a traceback.
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_IGN)


if __name__ == "__main__":
    main()
