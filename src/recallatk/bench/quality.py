"""The judge of answers that a bench file or a caller names, ready for the data of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.units import format_duration

if TYPE_CHECKING:
    from recallatk.bench.settings import Settings
    from recallatk.core import Dataset
    from recallatk.quality import QualityJudge


def quality_judge(settings: Settings, dataset: Dataset) -> QualityJudge | None:
    """The judge that the settings name; None if they name none.

    This imports the function: call it for the user's settings only, never for those of a run folder.
    """
    from recallatk.quality import Quality

    named = settings.quality
    if named.function is None:
        return None
    quality = Quality(
        named.function,
        k=named.k,
        sample=named.sample,
        rate=named.rate,
        clients=named.clients,
        retries=named.retries,
        timeout=format_duration(named.timeout),
        version=named.version,
        cache=named.cache,
        seed=settings.data.seed,
    )
    return given_judge(quality, dataset, settings.measure.largest_k)


def given_judge(quality: Any, dataset: Dataset, largest_k: int) -> QualityJudge | None:
    """The judge that a caller gives: a function, `module:function`, a `Quality`, or None."""
    from recallatk.quality import Quality, QualityJudge

    if quality is None:
        return None
    chosen = quality if isinstance(quality, Quality) else Quality(quality)
    return QualityJudge(chosen, dataset, largest_k)
