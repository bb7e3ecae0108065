import pytest

from tilegen.targets import names, target
from tilegen.verify.extent import extent_equal
from tilegen.verify.facts import LoweringError, TensorMap, lower_facts


@pytest.fixture(scope="module")
def hopper(kernels):
    return lower_facts(kernels.dynamic_gemm_and_norm(), target("sm_90a"))


def test_launch_and_memory_of_each_kernel(hopper):
    gemm, norm = hopper.kernel("two_kernel"), hopper.kernel("two_kernel_1")
    assert (gemm.threads, norm.threads) == (256, 128)
    assert (gemm.dynamic_bytes, norm.dynamic_bytes) == (98_304, 0)
    assert (gemm.barriers, norm.barriers) == (6, 0)
    assert extent_equal(gemm.grid[1], "ceildiv(m, 128)")
    assert extent_equal(norm.grid[0], "ceildiv(m, 4)")


def test_instructions_of_hopper(hopper):
    gemm = hopper.kernel("two_kernel")
    assert gemm.counts == {"setmaxnreg": 2, "tma_load": 2, "wgmma": 1}
    assert gemm.shapes == ("m64n128k16",)
    assert gemm.setmaxnreg == (24, 240)
    assert gemm.local_elements["acc"] == 128


def test_tensor_maps_of_hopper(hopper):
    b = {m.name: m for m in hopper.tensor_maps}["B_desc"]
    assert b == TensorMap("B_desc", (256, "k"), (512,), (64, 64), 128)


def test_the_source_is_hashed_and_kept(hopper, kernels):
    again = lower_facts(kernels.dynamic_gemm_and_norm(), target("sm_90a"))
    assert "__launch_bounds__(256, 1)" in hopper.source
    assert again.sha256 == hopper.sha256


MATRIX = {"sm_90a": "wgmma", "gfx942": "mfma"}


@pytest.mark.parametrize("name", names())
def test_a_fragment_gemm_gets_one_matrix_instruction_on_each_chip(kernels, name):
    kernel = lower_facts(kernels.simple_gemm(), target(name)).kernels[0]
    used = {i for i in ("wgmma", "mma", "mfma", "tcgen05") if kernel.count(i)}
    assert used == {MATRIX.get(name, "mma")}


def test_a_refusal_says_why_and_names_the_target(kernels):
    with pytest.raises(LoweringError, match="cannot lower for sm_90a: No valid warp partition") as refusal:
        lower_facts(kernels.simple_gemm(block_m=96), target("sm_90a"))
    assert refusal.value.target == "sm_90a"
    assert "M=96, N=128" in refusal.value.reason


def test_lowering_prints_nothing(kernels, capfd):
    lower_facts(kernels.simple_gemm(), target("gfx942"))
    with pytest.raises(LoweringError):
        lower_facts(kernels.simple_gemm(block_n=24), target("sm_90a"))  # tilelang logs the failed macro
    assert capfd.readouterr() == ("", "")
