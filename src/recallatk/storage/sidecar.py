"""Files beside a trial file that say more about its answers: Parquet with a sealed header."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from recallatk.errors import FormatError, UsageError
from recallatk.files import atomic_file, reading, require_ordinary, require_version
from recallatk.storage.checksums import (
    CHECKSUM,
    column_checksum,
    column_checksums,
    require_columns,
    sealed,
    text_checksum,
)
from recallatk.storage.records import read_trial_record, trial_record, written
from recallatk.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from recallatk.core import Measurement
    from recallatk.storage.records import Record

_TRIAL = "trial-"


@dataclass(frozen=True)
class Sidecar:
    """A kind of file that may stand beside every trial file."""

    kind: str
    """Beginning of the file name, before the number of the trial."""
    version: int
    """The newest format that is read."""
    content: str
    """What it holds, for messages."""
    hint: str
    """What to do about a damaged file."""

    def name(self, number: int) -> str:
        """File name for a trial."""
        return f"{self.kind}-{number}.parquet"

    def beside(self, trial: Path) -> Path:
        """The file that goes with a trial file."""
        return trial.with_name(f"{self.kind}-{trial.name.removeprefix(_TRIAL)}")

    @property
    def _key(self) -> bytes:
        return f"recallatk.{self.kind}".encode()

    def write(
        self,
        path: Path,
        measurement: Measurement,
        table: pa.Table,
        facts: Mapping[str, Any],
        run: Mapping[str, Any],
    ) -> None:
        """Write what is known about a trial, atomically; a file that no run wrote is not overwritten.

        Args:
            path: the file.
            measurement: the trial, whose answers the content is about.
            table: the columns.
            facts: further entries of the header, redacted.
            run: the head of the run.
        """
        if path.exists() and self.is_foreign(path):
            raise UsageError(
                f"{path}: not a file of a run, but the run would overwrite it. Move it away, or "
                "choose another folder (--out)"
            )
        header = {
            "format_version": self.version,
            "tool_version": __version__,
            "identity": run["identity"],
            "trial": trial_record(measurement.trial),
            "answers": _answers_checksum(measurement),
            **facts,
            "columns": column_checksums(table),
        }
        with atomic_file(path) as scratch:
            table = table.replace_schema_metadata({self._key: sealed(header)})
            pq.write_table(table, scratch, compression="zstd", write_page_checksum=True)

    def read(self, path: Path, measurement: Measurement, identity: str) -> tuple[pa.Table, Record] | None:
        """The columns and the header of a file; None if there is no such file of a run.

        Damaged files, and files about other answers or of another run, are refused.
        """
        if not path.exists():
            return None
        require_ordinary(path)
        with (
            reading(str(path), f"{self.content} file of a run", self.hint),
            pq.ParquetFile(path, page_checksum_verification=True) as file,
        ):
            text = (file.schema_arrow.metadata or {}).get(self._key)
            if text is None:
                return None
            header = self._checked(path, dict(json.loads(text)))
            if header["identity"] != identity:
                raise self._unfit(path, "the file belongs to another run")
            if read_trial_record(header["trial"]) != written(measurement.trial):
                raise self._unfit(path, "the file belongs to another trial")
            if header["answers"] != _answers_checksum(measurement):
                raise self._unfit(path, "the trial was measured again since")
            table = file.read()
            require_columns(str(path), table, header["columns"])
            return table, header

    def is_foreign(self, path: Path) -> bool:
        """Whether a file is readable Parquet that no run wrote; a damaged one counts as ours."""
        try:
            return self._key not in (pq.read_schema(path).metadata or {})
        except (OSError, pa.ArrowException):
            return False

    def _checked(self, path: Path, header: Record) -> Record:
        require_version(str(path), self.content, int(header["format_version"]), self.version)
        rest = {name: value for name, value in header.items() if name != CHECKSUM}
        if header.get(CHECKSUM) != text_checksum(json.dumps(rest)):
            raise self._unfit(path, "its checksum does not match its content")
        return header

    def _unfit(self, path: Path, found: str) -> FormatError:
        return FormatError(str(path), found, f"the {self.content} as originally written", hint=self.hint)


def _answers_checksum(measurement: Measurement) -> str:
    """Identity of the answers that a file is about."""
    return column_checksum(pa.chunked_array([pa.array(measurement.answers.reshape(-1), pa.int64())]))
