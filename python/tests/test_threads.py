"""Threads of CPU kernels: how many there are, and that results need not depend on it."""

import os
import subprocess
import sys

import pytest

SUMS = """
import numpy as np
from frit import Tensor
x = Tensor(np.random.default_rng(0).standard_normal(3_000_017, dtype=np.float32))
a = x[:600_000].reshape(3000, 200).contiguous()
qkv = [x[i * 65536 : (i + 1) * 65536].reshape(1, 4, 256, 64).contiguous().requires_grad_() for i in range(3)]
attended = Tensor.scaled_dot_product_attention(*qkv)
# sums over all pixels for each weight, and over all rows
images, weights = x[: 8 * 16 * 28 * 28].reshape(8, 16, 28, 28), x[: 32 * 16 * 9].reshape(32, 16, 3, 3)
given = [t.contiguous().requires_grad_() for t in (images, weights, a, x[: 200 * 7].reshape(200, 7))]
loss = given[0].conv2d(given[1], padding=1).square().mean() + (given[2] @ given[3]).gelu().square().mean()
gradients = (attended.square().sum() + loss).gradient(*qkv, *given)
# few results, whose sums are cut where there are threads for the parts
few = x[: 12 * 200_000].reshape(12, 200_000).sum(1)
for out in (few, x.sum(), a.T @ a, a.sum(0), a.softmax(0), attended, (x * x).mean(), *gradients):
    print(out.numpy().tobytes().hex()[:4096])
"""


def run(code, **env):
    env = {k: str(v) for k, v in env.items()}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **env})
    assert done.returncode == 0, done.stderr
    return done.stdout


def helpers(before):
    """How many threads kernels have beside the caller's by default, after something else was done."""
    # kernels start their threads when they are first needed, all of them
    code = f"""
import os, time
{before}
from frit import Tensor
Tensor.ones(1 << 22).contiguous().sum().realize()
def count():
    time.sleep(0.05)
    names = (open(f"/proc/self/task/{{t}}/comm").read().strip() for t in os.listdir("/proc/self/task"))
    return sum(n.startswith("frit-") for n in names)
# a thread that has just begun has no name of its own yet
print(max(count() for _ in range(20)))
"""
    env = {k: v for k, v in os.environ.items() if k != "FRIT_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(os.environ.get("FRIT_DEVICE", "CPU") != "CPU", reason="threads are the CPU's")
def test_results_do_not_depend_on_the_threads_that_run_a_plan():
    first = run(SUMS, FRIT_THREADS=1, FRIT_PLAN_THREADS=3)
    assert len(first.split()) == 14
    for threads in (2, 3, 7):
        assert run(SUMS, FRIT_THREADS=threads, FRIT_PLAN_THREADS=3) == first


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_as_many_threads_as_cores_are_left_to_the_process():
    assert helpers("os.environ['FRIT_THREADS'] = '3'") == 2
    assert helpers("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})") == 0


def quotas():
    """Files that limit the time of a group's processes in both versions of control groups, and what to write for a core."""
    where = [line.strip().split(":", 2) for line in open("/proc/self/cgroup")]
    for _, kinds, path in where:
        if kinds == "":
            yield "/sys/fs/cgroup" + path, "cpu.max", "100000 100000"
        elif "cpu" in kinds.split(","):
            yield f"/sys/fs/cgroup/{kinds}{path}", "cpu.cfs_quota_us", "100000"


@pytest.fixture
def group_of_one_core():
    """A control group whose processes have a core's time."""
    name = f"frit-{os.getpid()}"
    for folder, file, quota in quotas() if os.path.exists("/proc/self/cgroup") else []:
        group = os.path.join(folder, name)
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            if os.path.exists(os.path.join(group, file)):
                with open(os.path.join(group, file), "w") as f:
                    f.write(quota)
                yield group
                return
        finally:
            os.rmdir(group)
    pytest.skip("no control group can be made here")


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has no helpers with or without a quota")
def test_as_many_threads_as_a_quota_leaves_to_the_process(group_of_one_core):
    assert helpers(f"open('{group_of_one_core}/cgroup.procs', 'w').write(str(os.getpid()))") == 0
