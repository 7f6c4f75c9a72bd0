"""The same build made more carefully, where searching it takes far more effort than is usual.

Parts of a corpus do not show what care is worth: a graph leads astray more often the more rows it has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recallatk.bench.settings.grid import violations
from recallatk.tune.space import usual_build

if TYPE_CHECKING:
    from recallatk.tune.halving import Proposal
    from recallatk.tune.proving import Proven
    from recallatk.tune.search import Search

# So many times the usual effort of searching calls for so many times the effort of building.
_FAR_MORE, _TIMES = 2.0, 2


def more_thorough(search: Search, proven: Proven) -> Proposal | None:
    """The build with twice the effort while it is built; None where searching is cheap, or it cannot be."""
    proposal, look = proven.proposal, proven.chosen.look
    knob = proven.chosen.prober.ladder.knob
    if search.prefer in ("memory", "build") or look is None or knob is None:
        return None
    build = _with_more_effort(search, proposal)
    if look.effort < _FAR_MORE * float(knob.default) or build == proposal.build:
        return None
    taken = proven.built.seconds
    seconds = None if taken is None else taken * _TIMES
    budgets = [each for each in search.budgets if each.name == "build"]
    if any(seconds is not None and each.within(seconds) is False for each in budgets):
        return None
    return replace(proposal, build=build, seconds=seconds)


def _with_more_effort(search: Search, proposal: Proposal) -> dict[str, Any]:
    """The same where its effort is above twice the usual already, or its constraints forbid more."""
    engine, build = proposal.engine, proposal.build
    usual = usual_build(engine, search.shape)
    more = {
        knob.name: knob.plain(min(knob.high, _TIMES * build[knob.name]))
        for knob in engine.build_knobs
        if knob.effort and build[knob.name] < _TIMES * usual[knob.name]
    }
    found = {**build, **more}
    return build if any(violations(engine, {**search.shape.known, **found})) else found
