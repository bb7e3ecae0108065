from tilegen.lowering.occupancy import occupancy, waves
from tilegen.targets import target


def test_shared_memory_holds_one_block_of_mla_on_an_sm():
    found = occupancy(target("sm_90a"), threads=384, shared_bytes=232_448, registers=168)
    assert found.blocks_per_sm == 1
    assert found.by_shared_memory == 1


def test_two_blocks_need_half_of_the_memory_less_what_the_system_keeps():
    chip = target("sm_90a")
    assert occupancy(chip, threads=128, shared_bytes=115_712, registers=64).by_shared_memory == 2
    assert occupancy(chip, threads=128, shared_bytes=115_713, registers=64).by_shared_memory == 1


def test_registers_are_dealt_by_warp_and_partition():
    chip = target("sm_90a")
    assert occupancy(chip, threads=128, shared_bytes=0, registers=128).by_registers == 4
    assert occupancy(chip, threads=128, shared_bytes=0, registers=129).by_registers == 3  # 136 after rounding
    assert occupancy(chip, threads=384, shared_bytes=0, registers=168).by_registers == 1
    assert occupancy(chip, threads=1024, shared_bytes=0, registers=65).by_registers == 0


def test_threads_and_blocks_limit_a_light_kernel():
    assert occupancy(target("sm_86"), threads=32, shared_bytes=0, registers=16).limiter == "blocks"
    assert occupancy(target("sm_86"), threads=512, shared_bytes=0, registers=16).blocks_per_sm == 3
    assert occupancy(target("sm_90a"), threads=512, shared_bytes=0, registers=16).blocks_per_sm == 4


def test_too_much_shared_memory_holds_no_block():
    assert occupancy(target("sm_86"), threads=128, shared_bytes=101_377, registers=32).blocks_per_sm == 0


def test_waves_of_a_grid():
    assert waves(264, 2, 132) == 1.0
