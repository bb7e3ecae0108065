"""Samples: reproducible, legal and not, half of them beside a limit."""

import tomllib

import pytest

from tilegen.check.examples import to_toml
from tilegen.spec import load_bytes
from tilegen.verify.sweep.draw import _with, draw, verdict_on

SETS = [(family, arch) for family in ("gemm", "attention", "row_norm") for arch in ("sm_90a", "sm_80")]


@pytest.mark.parametrize(("family", "arch"), SETS)
def test_a_sample_follows_from_its_seed_and_number(family, arch):
    assert [draw(family, arch, 7, i) for i in range(4)] == [draw(family, arch, 7, i) for i in range(4)]
    assert draw(family, arch, 7, 1) != draw(family, arch, 8, 1)


@pytest.mark.parametrize(("family", "arch"), SETS)
def test_every_other_sample_lies_beside_a_limit_of_the_checker(family, arch):
    for index in (0, 2, 4):
        sample = draw(family, arch, 7, index)
        path, low, _, high = sample.near.split(": ")[0].split()
        tables = tomllib.loads(sample.spec)
        sides = [_with(tables, path, int(value)) for value in (low, high)]
        assert to_toml(tables) in [to_toml(side) for side in sides]
        verdicts = [verdict_on(load_bytes(to_toml(side).encode(), "side.toml")) for side in sides]
        assert (verdicts[0].errors, verdicts[0].slow) != (verdicts[1].errors, verdicts[1].slow)


@pytest.mark.parametrize(("family", "arch"), SETS)
def test_some_samples_are_legal_and_some_are_not(family, arch):
    accepted = [verdict_on(draw(family, arch, 7, index).loaded()).accepted for index in range(16)]
    assert 3 <= sum(accepted) <= 15
