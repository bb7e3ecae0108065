"""What TileLang makes of the rendered schedules is what their plans say."""

import pytest

from tests.families.gemm import RICH, TILES, gemm, module
from tilegen.emit.artefacts import compile_key
from tilegen.emit.rendering import factory_parameters, render
from tilegen.plan.instances import instances
from tilegen.verify.compare import disagreements
from tilegen.verify.expected import expected
from tilegen.verify.ir import read_ir
from tilegen.verify.worker import observe

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize(("a", "b"), [("M K", "K N"), ("K M", "N K")])
def test_the_plan_of_a_schedule_is_what_tilelang_makes(tiles, a, b):
    spec = gemm(tiles, a=a, b=b, **RICH)
    (instance,) = instances(spec, "sm_90a")
    parameters = factory_parameters(spec)
    key = compile_key(instance, parameters)
    [observed] = observe(render(spec).files["kernel.py"], {}, [key], "sm_90a", with_ptxas=False)
    assert disagreements(expected(instance), observed) == []


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_100a", "sm_120a", "gfx942"])
def test_the_plain_schedule_is_what_tilelang_makes_on_other_chips(arch):
    spec = gemm("plain", arch=arch, **RICH)
    (instance,) = instances(spec, arch)
    parameters = factory_parameters(spec)
    key = compile_key(instance, parameters)
    [observed] = observe(render(spec).files["kernel.py"], {}, [key], arch, with_ptxas=False)
    assert disagreements(expected(instance), observed) == []


SWIZZLED = """\
BLOCK_M = [ { use = 64, when = "M <= 64" }, { use = 128 } ]
BLOCK_N = 128
BLOCK_K = 64
threads = 128
stages = 3
[[tile.swizzle]]
use = false
when = "M <= 64"
[[tile.swizzle]]
use = { panel = 6, order = "column" }
when = "M <= 512"
[[tile.swizzle]]
use = { panel = 10, order = "row" }
"""


def test_each_case_has_the_order_of_tiles_that_its_rule_gives(tmp_path):
    spec = gemm(("plain", SWIZZLED))
    parameters = factory_parameters(spec)
    kernel = module(spec, tmp_path)
    keys = [compile_key(instance, parameters) for instance in instances(spec, "sm_90a")]
    orders = {key["swizzle"]: {one.swizzle for one in read_ir(kernel.build(**key))} for key in keys}
    assert orders == {False: {None}, "column_6": {("column", 6)}, "row_10": {("row", 10)}}
    chosen = [kernel.tiles("sm_90a", M, 200, 264, 132)["swizzle"] for M in (1, 65, 4096)]
    assert chosen == [False, "column_6", "row_10"]
