"""All rules by their codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.audit.rules.boundary_ties import BoundaryTies
from recallatk.audit.rules.calls_differ import CallsDiffer
from recallatk.audit.rules.ceiling import Ceiling
from recallatk.audit.rules.closed_loop import ClosedLoop
from recallatk.audit.rules.duplicate_queries import DuplicateQueries
from recallatk.audit.rules.duplicate_rows import DuplicateRows
from recallatk.audit.rules.easy_filters import EasyFilters
from recallatk.audit.rules.few_calls import FewCalls
from recallatk.audit.rules.few_queries import FewQueries
from recallatk.audit.rules.fits_cache import FitsCache
from recallatk.audit.rules.imported_truth import ImportedTruth
from recallatk.audit.rules.index_metric import IndexMetric
from recallatk.audit.rules.index_not_used import IndexNotUsed
from recallatk.audit.rules.inner_product_norms import InnerProductNorms
from recallatk.audit.rules.no_contrast import NoContrast
from recallatk.audit.rules.noisy_machine import NoisyMachine
from recallatk.audit.rules.one_cutoff import OneCutoff
from recallatk.audit.rules.other_data import OtherData
from recallatk.audit.rules.production_distance import ProductionDistance
from recallatk.audit.rules.production_distribution import ProductionDistribution
from recallatk.audit.rules.production_filters import ProductionFilters
from recallatk.audit.rules.production_hardness import ProductionHardness
from recallatk.audit.rules.queries_in_corpus import QueriesInCorpus
from recallatk.audit.rules.sampled_corpus import SampledCorpus
from recallatk.audit.rules.single_build import SingleBuild
from recallatk.audit.rules.sorted_insertion import SortedInsertion
from recallatk.audit.rules.swapped_data import SwappedData
from recallatk.audit.rules.too_easy import TooEasy
from recallatk.audit.rules.truth_disproved import TruthDisproved
from recallatk.audit.rules.truth_metric import TruthMetric
from recallatk.audit.rules.unequal_recall import UnequalRecall
from recallatk.audit.rules.unequal_threads import UnequalThreads
from recallatk.audit.rules.unsafe_precision import UnsafePrecision
from recallatk.audit.rules.validation_seen import ValidationSeen
from recallatk.audit.rules.warm_up import WarmUpMissing

if TYPE_CHECKING:
    from recallatk.audit.base import Rule

RULES: tuple[Rule, ...] = (
    FewQueries(),
    QueriesInCorpus(),
    DuplicateRows(),
    DuplicateQueries(),
    BoundaryTies(),
    ProductionDistribution(),
    ProductionDistance(),
    ProductionHardness(),
    ProductionFilters(),
    EasyFilters(),
    OneCutoff(),
    NoContrast(),
    SampledCorpus(),
    SortedInsertion(),
    UnsafePrecision(),
    OtherData(),
    TruthMetric(),
    TruthDisproved(),
    ImportedTruth(),
    InnerProductNorms(),
    IndexMetric(),
    IndexNotUsed(),
    TooEasy(),
    Ceiling(),
    SingleBuild(),
    FewCalls(),
    ClosedLoop(),
    CallsDiffer(),
    UnequalRecall(),
    UnequalThreads(),
    WarmUpMissing(),
    NoisyMachine(),
    FitsCache(),
    ValidationSeen(),
    SwappedData(),
)


def rule_codes() -> tuple[str, ...]:
    """The codes of all rules, in order."""
    return tuple(each.code for each in RULES)
