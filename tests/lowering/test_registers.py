from tilegen.lowering.registers import (
    MEASUREMENTS,
    consumer_registers,
    fragment_registers,
    launch_limit,
    reallocation_ok,
    register_budget,
)
from tilegen.targets import target

SM90 = target("sm_90a")


def test_registers_of_a_fragment():
    assert fragment_registers(64 * 512, 128, 4) == 256
    assert fragment_registers(64 * 512, 256, 4) == 128
    assert fragment_registers(64 * 64, 128, 2) == 16
    assert fragment_registers(64, 256, 4, replication=256) == 64


def test_launch_bounds_share_the_register_file():
    assert launch_limit(SM90, 128) == launch_limit(SM90, 256) == 255
    assert launch_limit(SM90, 384) == 168
    assert launch_limit(SM90, 512) == 128


def test_consumers_work_with_what_they_are_given():
    assert [consumer_registers(SM90, groups) for groups in (1, 2, 3, 4)] == [240, 240, 160, None]
    assert register_budget(SM90, 256, warp_specialised=True) == 240
    assert register_budget(SM90, 384, warp_specialised=True) == 160
    assert register_budget(SM90, 256, warp_specialised=False) == 255
    assert register_budget(target("sm_80"), 128, warp_specialised=False) == 255


def test_reallocation_stays_within_the_register_file():
    assert reallocation_ok(SM90, ((128, 24), (256, 240)))
    assert not reallocation_ok(SM90, ((128, 24), (384, 240)))
    assert not reallocation_ok(SM90, ((128, 20), (256, 240)))
    assert not reallocation_ok(target("sm_80"), ((128, 24), (128, 240)))


def test_every_measurement_with_a_spill_left_a_stack():
    assert all(m.spilled == (m.stack_bytes > 0) for m in MEASUREMENTS)
