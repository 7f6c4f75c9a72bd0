"""`python -m recallatk` is the same as `recallatk`."""

from recallatk.cli import main

if __name__ == "__main__":
    main()
