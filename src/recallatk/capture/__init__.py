"""Production calls, captured: a sample of a search function's real calls in rotating Parquet files."""

from recallatk.capture.call_record import CallRecord
from recallatk.capture.log_writer import LogWriter
from recallatk.capture.wrapper import tap

__all__ = ["CallRecord", "LogWriter", "tap"]
