"""A row of a benchmark with torch on the CPU in place of the kernel, and a clock of the test in place of the GPU."""

from types import SimpleNamespace

import pytest
import torch

from tilegen.bench.measure import Options, _row, roof_row
from tilegen.bench.peers import YARDSTICK, MissingPeerError, PeerError, parse_peers, peer, yardsticks
from tilegen.plan.roofline import Roofline
from tilegen.targets import target


class Clock:
    """Says that ours takes 1 ms and everything else 2 ms; ours is the call that writes to ``out``."""

    def samples(self, call, *, cold, count):
        return [(1e-3 if call() is None else 2e-3) * (1 if cold else 0.5)] * count


def modules(error=0.5, call=lambda *_: None):
    bench = SimpleNamespace(
        inputs=lambda M, C, dtype, seed: (torch.ones(M, C, dtype=dtype),),
        output=torch.empty_like,
        call=call,
        error=lambda inputs, out: error,
        PEERS={"torch": torch.relu},
    )
    return SimpleNamespace(bench=bench)


def row(against=("torch",), **more):
    roof = roof_row(Roofline(64, 128, "float16"), {"M": 4, "C": 8}, target("sm_90a").part)
    key = {"arch": "sm_90a", "dtype": "float16", "C": 8, "schedule": "one_pass", "BLOCK_M": 2}
    return _row(modules(**more), roof, key, Clock(), Options(tuple(against)))


def test_a_right_kernel_is_timed_cold_and_warm_beside_its_peers():
    found = row()
    assert found.tiles == {"schedule": "one_pass", "BLOCK_M": 2}
    assert found.times["cold"]["ours"].seconds.median == pytest.approx(1e-3)
    assert found.times["warm"]["ours"].seconds.median == pytest.approx(0.5e-3)
    assert found.times["cold"]["torch"].ratio.median == pytest.approx(2)


@pytest.mark.parametrize("error", [1.5, float("inf"), float("nan")])
def test_a_wrong_kernel_is_not_timed(error):
    found = row(error=error)
    assert not found.right
    assert not found.times


def test_a_kernel_that_fails_gives_a_row_that_says_so():
    def fails(*_):
        raise RuntimeError("an illegal memory access was encountered")

    assert row(call=fails).failed == "RuntimeError: an illegal memory access was encountered"


def test_a_peer_that_is_not_there_or_fails_is_named_and_the_others_are_timed():
    found = row(against=("torch", "no_such_module:call", "math:sqrt"))
    assert set(found.times["cold"]) == {"ours", "torch"}
    assert "no_such_module" in found.missing["no_such_module:call"]
    assert "math:sqrt" in found.missing["math:sqrt"]


def test_a_copy_moves_half_of_the_bytes_each_way():
    copy = peer("copy", modules().bench, (torch.ones(1),), 4096)
    assert copy.call().numel() * 16 == 2048
    assert not copy.same_work


def test_without_a_product_of_its_own_cublas_is_a_yardstick_with_its_own_flops(monkeypatch):
    monkeypatch.setattr(torch, "randn", lambda *_, **__: torch.ones(1, 1))
    entry = peer("cublas", modules().bench, (torch.ones(1),), 0)
    assert entry.flops == 2 * YARDSTICK**3
    assert yardsticks(("torch", "cublas", "copy"), modules().bench) == ("cublas", "copy")


def test_peers_are_words_and_callables():
    assert parse_peers("torch, copy,torch, a.b:c") == ("torch", "copy", "a.b:c")
    with pytest.raises(PeerError, match="torch, compile, cublas, copy, or a callable"):
        parse_peers("cudnn")
    with pytest.raises(MissingPeerError, match="no_such_module"):
        peer("no_such_module:f", modules().bench, (), 0)
