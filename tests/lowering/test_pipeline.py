from tilegen.lowering.pipeline import PipelinePath, pipeline_path
from tilegen.lowering.tma import tma_copy
from tilegen.targets import target


def loads(chip, *strides):
    return [tma_copy(128, 64, 2, target(chip).tma, "pipelined_load", row_stride=stride) for stride in strides]


def path(chip, threads, stages, *strides):
    return pipeline_path(target(chip), threads, stages, loads(chip, *strides))


def test_hopper_adds_a_producer_warp_group():
    assert path("sm_90a", 256, 3, 4096, 4096) == PipelinePath(True, 384, (24, 240), 3)


def test_three_consumer_groups_get_less_and_four_get_nothing():
    assert path("sm_90a", 384, 3, 4096, 4096) == PipelinePath(True, 512, (24, 160), 3)
    assert path("sm_90a", 512, 3, 4096, 4096) == PipelinePath(True, 640, None, 3)


def test_one_load_that_falls_back_doubles_the_block_and_loses_the_registers():
    assert path("sm_90a", 256, 3, 4096, 1001) == PipelinePath(True, 512, None, 3)


def test_no_load_for_tma_means_no_warp_specialisation():
    assert path("sm_90a", 256, 3, 1001, 1001) == PipelinePath(False, 256, None, 3)


def test_stages_decide():
    assert path("sm_90a", 128, 1, 4096).warp_specialised
    assert path("sm_90a", 128, 0, 4096) == PipelinePath(False, 128, None, 1)


def test_other_chips_pipeline_without_producers():
    assert path("sm_80", 128, 3, 4096) == PipelinePath(False, 128, None, 3)
    assert path("gfx942", 256, 3, 4096) == PipelinePath(False, 256, None, 1)


def test_a_partial_consumer_group_still_reallocates():
    assert path("sm_90a", 64, 2, 4096).reallocated == (24, 240)
