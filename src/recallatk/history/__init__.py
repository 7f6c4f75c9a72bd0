"""Runs on disk: written whole, read back, and named by what they were made from."""

from recallatk.history.run import load_run, save_run

__all__ = ["load_run", "save_run"]
