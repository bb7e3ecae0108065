"""The timer asks for no more launches at once than the driver can hold, on a stand-in for the GPU."""

from types import SimpleNamespace

import pytest

from tilegen.bench import cuda
from tilegen.bench.cuda import CudaTimer

torch = pytest.importorskip("torch")
HOLDS = 1000


class Queue:
    """A GPU that sleeps until its queue is full. From then on every launch waits for the host: 10 us of it."""

    def __init__(self, monkeypatch):
        self.waiting = self.calls = 0
        self.late = False
        monkeypatch.setattr(torch.cuda, "_sleep", self.sleep)
        monkeypatch.setattr(torch.cuda, "synchronize", self.sleep)
        monkeypatch.setattr(torch.cuda, "Event", lambda **_options: Event(self))
        monkeypatch.setattr(cuda.time, "sleep", lambda _seconds: None)

    def sleep(self, *_cycles):
        self.waiting, self.late = 0, False

    def launch(self, count=1):
        self.waiting += count
        self.late = self.late or self.waiting > HOLDS

    def timer(self):
        found = object.__new__(CudaTimer)
        found._flush, found._hertz = SimpleNamespace(zero_=self.launch), 1e9
        return found


class Event:
    def __init__(self, queue):
        self.queue = queue

    def record(self):
        self.queue.launch()
        self.calls, self.late = self.queue.calls, self.queue.late

    def query(self):
        return self.queue.late

    def elapsed_time(self, end):
        """Milliseconds: a microsecond of the GPU for each call, and the host's where it was waited for."""
        return (end.calls - self.calls) * (1e-3 + 1e-2 * end.late)


@pytest.mark.parametrize(
    ("launches", "cold"), [(1, True), (1, False), (9, True), (9, False), (90, False), (2000, True)]
)
def test_what_the_host_needs_for_a_call_of_many_kernels_is_not_measured(monkeypatch, launches, cold):
    queue = Queue(monkeypatch)

    def call():
        queue.launch(launches)
        queue.calls += 1

    samples = queue.timer().samples(call, cold=cold, count=40)
    assert len(samples) == 40
    if launches < HOLDS:
        assert samples == pytest.approx([1e-6] * 40)
