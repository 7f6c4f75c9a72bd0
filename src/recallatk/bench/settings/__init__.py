"""Bench files: TOML to settings, with all problems reported at once."""

from recallatk.bench.settings.bench_file import read_settings, settings_from
from recallatk.bench.settings.data import open_data
from recallatk.bench.settings.problems import SettingsError
from recallatk.bench.settings.settings import Settings

__all__ = ["Settings", "SettingsError", "open_data", "read_settings", "settings_from"]
