"""The command `recallatk`, also available as `python -m recallatk`."""

from __future__ import annotations

import signal
import sys

INTERRUPTED = 130
# EX_SOFTWARE of sysexits.h. Python's own 1 would look like a FAIL.
INTERNAL_ERROR = 70


def main() -> None:
    """Run the command line; Ctrl-C ends it with one line, even during imports and shutdown.

    An error that nobody foresaw has an exit code of its own, which is no verdict.
    """
    try:
        from recallatk.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("recallatk: stopped\n")
        sys.exit(INTERRUPTED)
    except Exception:
        import traceback

        from recallatk.redaction import hide_known

        said = hide_known(traceback.format_exc())
        sys.stderr.write(f"{said}recallatk: internal error, and no verdict. Please report what is above.\n")
        sys.exit(INTERNAL_ERROR)
    finally:
        # Ignore signals during interpreter shutdown, when they would print a traceback.
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_IGN)


if __name__ == "__main__":
    main()
