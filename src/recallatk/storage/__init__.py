"""Run folders on disk: written trial by trial, resumed, loaded and listed."""

from recallatk.storage.history import history, remember
from recallatk.storage.listing import ListedRun, list_runs
from recallatk.storage.run_folder import RunFolder
from recallatk.storage.run_store import load_run, save_run

__all__ = ["ListedRun", "RunFolder", "history", "list_runs", "load_run", "remember", "save_run"]
