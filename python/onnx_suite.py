"""Runs the backend tests of the onnx package: python python/onnx_suite.py [--sample N] [--names PART ...]

Prints how many of each kind pass. What tests-data/onnx_exceptions.txt lists may fail, and nothing else; what it lists and
passes is named, so that it can leave the list. FRIT_DEVICE chooses the device; ``--sample N`` runs a
random Nth of all but the whole nets.
"""

import argparse
import collections
import fnmatch
import os
import pathlib
import random
import sys
import tempfile
import time
import unittest
import warnings

LIST = pathlib.Path(__file__).parent.parent / "tests-data" / "onnx_exceptions.txt"


def exceptions():
    """Patterns of names with the reason why each may fail."""
    rows = {}
    for line in LIST.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, reason = line.split(maxsplit=1)
            rows[pattern] = reason
    return rows


def cases(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases(test)
        else:
            yield test


class Result(unittest.TestResult):
    """How each test ended: '' for passed, else why not."""

    def __init__(self):
        super().__init__()
        self.ended = {}

    def addSuccess(self, test):
        self.ended[test] = ""

    def addFailure(self, test, err):
        self.ended[test] = " ".join(str(err[1]).split())[:200] or err[0].__name__

    addError = addFailure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=1, help="run a random Nth of the tests")
    parser.add_argument("--seed", type=int, default=None, help="which ones")
    parser.add_argument("--names", nargs="*", default=[], help="only tests whose names contain one of these")
    options = parser.parse_args()

    sys.path.pop(0)  # the module as it is installed, not the sources beside this file
    warnings.filterwarnings("ignore")
    # the tests of light models write their inputs there
    os.environ.setdefault("ONNX_HOME", tempfile.mkdtemp(prefix="frit-onnx-"))
    import onnx.backend.test

    import frit.onnx.backend

    start = time.time()
    suite = onnx.backend.test.BackendTest(frit.onnx.backend, __name__).test_suite
    chosen = [t for t in cases(suite) if t._testMethodName.endswith("_cpu")]
    chosen = [t for t in chosen if not options.names or any(n in t._testMethodName for n in options.names)]
    if options.sample > 1:
        seed = options.seed if options.seed is not None else random.randrange(10**6)
        print(f"seed {seed}")
        # whole nets are too much for an interpreter
        chosen = [t for t in chosen if "RealModel" not in type(t).__name__]
        chosen = random.Random(seed).sample(chosen, len(chosen) // options.sample)
    print(f"{len(chosen)} tests made in {time.time() - start:.1f} s")

    start, result = time.time(), Result()
    for test in chosen:
        test.run(result)
    known, used, bad = exceptions(), set(), []
    counts = collections.defaultdict(collections.Counter)
    for test, why in result.ended.items():
        name = test._testMethodName.removesuffix("_cpu")
        found = [p for p in known if fnmatch.fnmatch(name, p)]
        used.update(p for p in found if why)
        state = "passed" if not why else "excepted" if found else "failed"
        counts[type(test).__name__][state] += 1
        if state == "failed":
            bad.append(f"{name}: {why}")
    for kind, count in sorted(counts.items()):
        print(f"{kind:45} " + ", ".join(f"{n} {state}" for state, n in sorted(count.items(), reverse=True)))
    total = sum(counts.values(), collections.Counter())
    print(f"{total['passed']} of {sum(total.values())} pass in {time.time() - start:.1f} s")
    if options.sample == 1 and not options.names:
        for pattern in sorted(set(known) - used):
            print(f"no longer fails: {pattern}")
    for line in bad:
        print(line)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
