"""Batches come back in order and once, whoever does them, and whoever dies meanwhile."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from epsworth.parallel import in_order, on_cluster, workers
from epsworth.threads import _Limit, one_thread


class Shifted:
    """A function that holds much, and counts how often it was unpickled in its process."""

    unpickled = 0

    def __init__(self, size):
        self.table = np.arange(size, dtype=np.float64)

    def __call__(self, batch):
        return os.getpid(), Shifted.unpickled, float(self.table[batch]), self.table.flags.writeable

    def __setstate__(self, state):
        Shifted.unpickled += 1
        self.__dict__.update(state)


class Dies:
    """Kills its worker once at a batch, or always."""

    def __init__(self, mark, always=False):
        self.mark, self.always, self.driver = mark, always, os.getpid()

    def __call__(self, batch):
        if batch == 5 and os.getpid() != self.driver and (self.always or not os.path.exists(self.mark)):
            open(self.mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return batch * batch


def refused(batch):
    raise ValueError(f"not {batch}")


def half_a_second(batch):
    time.sleep(0.5 if batch < 6 else 0)
    return batch


def slow(batch):
    time.sleep(30 if batch else 0)
    return batch


def pause_after_the_first(number):
    time.sleep(60 if number else 0)
    return os.getpid()


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


class Counted:
    def __init__(self, folder):
        self.folder = folder

    def __call__(self, number):
        with (self.folder / str(number)).open("a") as file:
            file.write(".")
        return half_a_second(number)


def threads(_):
    np.ones((4, 4)) @ np.ones((4, 4))
    return [one["num_threads"] for one in threadpool_info()]


@pytest.mark.slow
def test_what_a_function_holds_is_sent_once_and_its_memory_shared():
    found = list(in_order(Shifted(1 << 18), range(20), n_jobs=2))
    assert [value for *_, value, _ in found] == list(range(20))
    assert {process for process, *_ in found}.isdisjoint({os.getpid()})
    assert {count for _, count, *_ in found} == {1}
    assert not any(writeable for *_, writeable in found)  # one memory, which nobody may change
    assert all(one[-1] for one in in_order(Shifted(10), range(2), n_jobs=2))  # small arrays are each worker's own


@pytest.mark.slow
def test_functions_without_a_name_are_sent():
    offset = 3
    assert list(in_order(lambda batch: batch + offset, range(5), n_jobs=2)) == [3, 4, 5, 6, 7]


def test_what_cannot_be_sent_is_refused():
    lock = threading.Lock()
    with pytest.raises(ValueError, match=r"cannot be sent to other processes .* leave out n_jobs"):
        list(in_order(lambda batch: lock, range(5), n_jobs=2))


def test_what_a_function_raises_is_raised_here():
    with pytest.raises(ValueError, match=r"^not 0$"):
        list(in_order(refused, range(5), n_jobs=2))


@pytest.mark.slow
def test_giving_up_is_silent_and_costs_other_threads_nothing():
    """Loky's thread dies of a batch that was cancelled before its workers are killed; Python says so on stderr."""
    said = []

    def enough():
        raise KeyboardInterrupt

    former, threading.excepthook = threading.excepthook, said.append
    try:
        other = in_order(half_a_second, range(12), n_jobs=2)
        assert next(other) == 0
        with pytest.raises(KeyboardInterrupt):
            list(in_order(half_a_second, range(5), n_jobs=2, idle=enough))
        assert list(other) == list(range(1, 12))
    finally:
        threading.excepthook = former
    assert not said


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_others_may_give_up_again_and_again(tmp_path, count, capfd):
    """Each call has processes of its own: killing another's more often than LIVES costs nothing, nor a batch."""
    assert list(in_order(abs, range(3), n_jobs=2)) == [0, 1, 2]  # whose processes wait for the next call
    other = in_order(Counted(tmp_path), range(8), n_jobs=2)
    assert next(other) == 0
    for _ in range(5):
        results = in_order(half_a_second, range(9), n_jobs=count)
        assert next(results) == 0
        results.close()
    assert list(other) == list(range(1, 8))
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == {str(n): 1 for n in range(8)}
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_threads_that_give_up_harm_nobody():
    """For 20 s, three threads with pools of different sizes, joblib's own beside them; one hang would end the test."""
    end, done = time.monotonic() + 20, []

    def work(count, some):
        while time.monotonic() < end:
            results = in_order(abs, range(40), n_jobs=count)
            done.append([next(results) for _ in range(some)] == list(range(some)))
            results.close()

    def beside():
        while time.monotonic() < end:
            done.append(joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(n) for n in range(9)) == list(range(9)))

    everybody = [threading.Thread(target=work, args=which, daemon=True) for which in [(2, 40), (3, 40), (2, 3)]]
    everybody.append(threading.Thread(target=beside, daemon=True))
    for thread in everybody:
        thread.start()
    for thread in everybody:
        thread.join(60)
        assert not thread.is_alive()
    assert all(done)
    assert len(done) > 20


@pytest.mark.slow
def test_a_killed_worker_costs_its_batches_only(tmp_path):
    assert list(in_order(Dies(tmp_path / "died"), range(12), n_jobs=2)) == [n * n for n in range(12)]
    assert (tmp_path / "died").exists()


@pytest.mark.slow
def test_workers_that_always_die_end_the_work(tmp_path):
    results = in_order(Dies(tmp_path / "died", always=True), range(12), n_jobs=2)
    assert [next(results) for _ in range(5)] == [0, 1, 4, 9, 16]
    with pytest.raises(ValueError, match="workers ended again and again"):
        next(results)


def test_what_workers_have_in_hand_ends_with_the_call():
    results = in_order(pause_after_the_first, range(9), n_jobs=2)
    process = next(results)
    results.close()
    end = time.monotonic() + 20  # the pauses are of a minute
    while alive(process) and time.monotonic() < end:
        time.sleep(0.05)
    assert not alive(process)


@pytest.mark.slow
def test_waiting_can_be_given_up():
    class Enough(Exception):
        pass

    began, found = time.monotonic(), []

    def idle():
        if found:
            raise Enough

    results = in_order(slow, range(4), n_jobs=2, idle=idle)
    found.append(next(results))
    with pytest.raises(Enough):
        next(results)
    assert found == [0]
    assert time.monotonic() - began < 25


@pytest.mark.slow
def test_linear_algebra_runs_on_one_thread():
    assert {count for found in in_order(threads, range(3), n_jobs=2) for count in found} == {1}
    with joblib.parallel_config(backend="threading"):
        assert {count for found in in_order(threads, range(8), n_jobs=4) for count in found} == {1}


def test_workers_are_counted():
    assert workers() == workers(1) == 1
    assert workers(3) == 3
    with joblib.parallel_config(n_jobs=2):
        assert workers() == 2
    with pytest.raises(ValueError, match="n_jobs must be a whole number"):
        workers(0)


def test_no_cluster_is_where_it_is():
    with on_cluster(None):
        assert list(in_order(abs, [-1, 2])) == [1, 2]


def test_limits_of_others_come_back_and_ours_hold_within_them():
    before = blas_threads()
    with threadpool_limits(2, "blas"):
        inside = blas_threads()
        assert list(in_order(lambda _: blas_threads(), range(3))) == [1, 1, 1]
        with joblib.parallel_config(backend="threading"):
            assert set(in_order(lambda _: blas_threads(), range(20), n_jobs=3)) == {1}
        assert blas_threads() == inside
    assert blas_threads() == before
    with threadpool_limits(1, "blas"):
        assert blas_threads() == 1
    assert blas_threads() == before


def blas_threads():
    [blas] = {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}
    return blas


class Interrupted:
    """A holder of the limit whose first caller is interrupted while it waits for it."""

    def __init__(self, holder):
        self.holder, self.first = holder, True

    def submit(self, call):
        future = self.holder.submit(call)
        if self.first:
            self.first, future.result = False, self.interrupt
        return future

    def interrupt(self):
        raise KeyboardInterrupt


def test_an_interrupted_limit_does_not_stay():
    with threadpool_limits(2, "blas"):
        before, limit = blas_threads(), _Limit()
        limit.holder = Interrupted(limit.holder)
        with pytest.raises(KeyboardInterrupt), limit():
            pass
        assert blas_threads() == before
        with limit():
            assert blas_threads() == 1
        assert blas_threads() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("within", [True, False])
def test_a_fork_is_limited_where_its_thread_was_and_no_longer(within):
    """Either the thread that is within forks, or another one."""

    def told_by_child():
        child = os.fork()
        if child == 0:
            inside = blas_threads()
            if within:
                stack.close()
            os._exit(10 * inside + blas_threads())
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    with threadpool_limits(2, "blas"), ExitStack() as stack:
        before = blas_threads()
        stack.enter_context(one_thread())
        if within:
            assert told_by_child() == 10 + before
        else:
            with ThreadPoolExecutor(1) as another:
                assert another.submit(told_by_child).result() == 11 * before
        assert blas_threads() == 1


@pytest.mark.slow
def test_joblib_runs_after_and_beside_what_we_run():
    results = in_order(abs, range(12), n_jobs=2)
    assert next(results) == 0
    beside = joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(number) for number in range(-3, 0))
    assert beside == [3, 2, 1]
    assert list(results) == list(range(1, 12))
    assert joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(number) for number in range(-3, 0)) == [3, 2, 1]
    assert list(in_order(abs, range(5), n_jobs=2)) == list(range(5))
