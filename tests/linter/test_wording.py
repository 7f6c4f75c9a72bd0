"""One of something is not several, in every sentence of a rule."""

import dataclasses

from faults import clustered, found


def test_one_query_is_one_query():
    assert found("R01", dataset=clustered(queries=1))[0].message == "there is 1 query"
    assert found("R01", dataset=clustered(queries=2))[0].message == "there are 2 queries"


def test_one_trial_is_one_trial(cosine):
    first = dataclasses.replace(cosine.run.measurements[0], exercised=None)
    run = dataclasses.replace(cosine.run, measurements=(first,))
    assert found("R22", run=run)[0].message.endswith("1 of 1 trial gives no evidence of an index")


def test_one_difference_differs(euclidean):
    other = dataclasses.replace(euclidean.dataset, metric="ip")
    (error,) = found("R16", dataset=other, truth=dataclasses.replace(euclidean.truth, fingerprints={}))
    assert error.message.endswith("differs")
