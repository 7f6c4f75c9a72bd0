"""A conversation with an index in a process of its own."""

import numpy as np
import pytest

from recallatk.bench.conversation import Conversation, Speaker, TrialFailed
from recallatk.bench.job import write_data
from recallatk.bench.supervising import Limits
from recallatk.truth import ground_truth


@pytest.fixture
def talk(curved, data, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    write_data(folder, data, needs_ids=False)
    opened = []

    def start(engine, **others):
        name = tmp_path / f"process-{len(opened)}"
        opened.append(Conversation(folder, name, Speaker(engine, "l2", 10), **others))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def test_one_process_builds_the_whole_and_parts_and_answers_in_the_order_asked(talk, data):
    conversation, truth = talk("steady"), ground_truth(data, depth=10)
    built = conversation.build({})
    assert built.seconds > 0
    assert built.version == "1"
    asked = np.array([5, 3, 500])
    answered = conversation.ask({"effort": 4_000}, asked, warm=True)
    assert (answered.rows == truth.rows[asked]).all()
    assert len(answered.latencies_ns) == 3
    assert answered.evidence == "600 rows"
    conversation.build({}, 50)
    assert conversation.ask({"effort": 4_000}, asked).rows.max() < 50
    conversation.build({}, np.array([7, 9, 11]))
    few = conversation.ask({"effort": 4_000}, asked)
    assert set(few.rows.ravel().tolist()) <= {-1, 0, 1, 2}
    assert few.evidence == "3 rows"


def test_two_conversations_are_open_at_once(talk):
    first, second = talk("steady"), talk("capped")
    first.build({})
    second.build({})
    asked = np.arange(100)
    assert (first.ask({"effort": 4_000}, asked).rows >= 0).all()
    assert (second.ask({"effort": 4_000}, asked).rows < 0).any()


def test_a_build_that_raises_leaves_the_process_ready_for_another(talk):
    conversation = talk("breaking")
    with pytest.raises(TrialFailed, match="out of luck") as caught:
        conversation.build({"how": "raise"})
    assert (caught.value.kind, caught.value.phase) == ("exception", "build")
    assert "RuntimeError" in caught.value.log
    conversation.build({"how": "fine"})
    assert conversation.alive


def test_a_build_that_ends_the_process_is_a_crash(talk):
    conversation = talk("breaking")
    with pytest.raises(TrialFailed, match="SIGSEGV") as caught:
        conversation.build({"how": "segfault"})
    assert caught.value.kind == "crash"
    assert not conversation.alive
    with pytest.raises(TrialFailed):
        conversation.ask({"effort": 1}, np.arange(2))


def test_a_build_beyond_its_time_is_ended(talk):
    conversation = talk("slow", limits=Limits(build_seconds=0.1))
    with pytest.raises(TrialFailed) as caught:
        conversation.build({})
    assert caught.value.kind == "time limit"


def test_a_search_that_cannot_be_is_said_and_nothing_else_breaks(talk):
    conversation = talk("steady")
    with pytest.raises(TrialFailed, match="nothing is built"):
        conversation.ask({"effort": 1}, np.arange(2))
    conversation.build({})
    with pytest.raises(TrialFailed, match="IndexError"):
        conversation.ask({"effort": 1}, np.array([100_000]))
    assert len(conversation.ask({"effort": 1}, np.arange(2)).rows) == 2
