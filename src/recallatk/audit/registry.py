"""All rules by their codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.audit.rules.r01_few_queries import FewQueries
from recallatk.audit.rules.r02_queries_in_corpus import QueriesInCorpus
from recallatk.audit.rules.r03_duplicate_rows import DuplicateRows
from recallatk.audit.rules.r04_duplicate_queries import DuplicateQueries
from recallatk.audit.rules.r05_boundary_ties import BoundaryTies
from recallatk.audit.rules.r06_production_distribution import ProductionDistribution
from recallatk.audit.rules.r07_production_distance import ProductionDistance
from recallatk.audit.rules.r08_production_hardness import ProductionHardness
from recallatk.audit.rules.r09_production_filters import ProductionFilters
from recallatk.audit.rules.r10_easy_filters import EasyFilters
from recallatk.audit.rules.r11_one_k import OneCutoff
from recallatk.audit.rules.r12_no_contrast import NoContrast
from recallatk.audit.rules.r13_sampled_corpus import SampledCorpus
from recallatk.audit.rules.r14_sorted_insertion import SortedInsertion
from recallatk.audit.rules.r15_float32_unsafe import UnsafePrecision
from recallatk.audit.rules.r16_other_data import OtherData
from recallatk.audit.rules.r17_truth_metric import TruthMetric
from recallatk.audit.rules.r18_truth_disproved import TruthDisproved
from recallatk.audit.rules.r19_imported_truth import ImportedTruth
from recallatk.audit.rules.r20_inner_product_norms import InnerProductNorms
from recallatk.audit.rules.r21_index_metric import IndexMetric
from recallatk.audit.rules.r22_index_not_used import IndexNotUsed
from recallatk.audit.rules.r23_too_easy import TooEasy
from recallatk.audit.rules.r24_ceiling import Ceiling
from recallatk.audit.rules.r25_single_build import SingleBuild
from recallatk.audit.rules.r26_few_calls import FewCalls
from recallatk.audit.rules.r27_closed_loop import ClosedLoop
from recallatk.audit.rules.r28_calls_differ import CallsDiffer
from recallatk.audit.rules.r29_unequal_recall import UnequalRecall
from recallatk.audit.rules.r30_unequal_threads import UnequalThreads
from recallatk.audit.rules.r31_warm_up import WarmUpMissing
from recallatk.audit.rules.r32_noisy_machine import NoisyMachine
from recallatk.audit.rules.r33_fits_cache import FitsCache
from recallatk.audit.rules.r34_validation_seen import ValidationSeen
from recallatk.audit.rules.r35_swapped_data import SwappedData

if TYPE_CHECKING:
    from recallatk.audit.rule import Rule

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
