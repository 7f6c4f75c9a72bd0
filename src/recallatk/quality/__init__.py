"""Answer-level quality: judging what was retrieved, with a cache, a rate limit and retries."""

from recallatk.quality.inputs import JudgedQuery, RetrievedRow
from recallatk.quality.judge import Quality, QualityJudge

__all__ = ["JudgedQuery", "Quality", "QualityJudge", "RetrievedRow"]
