"""Random programs on frit and on numpy agree, statement by statement."""

import os

import state_fuzz


def test_tensors_do_what_numpy_does():
    count = 20_000 if os.environ.get("FRIT_LONG") == "1" else 300
    found = state_fuzz.check(range(count))
    assert found is None, found
