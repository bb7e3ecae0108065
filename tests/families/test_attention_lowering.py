"""MLA decode on chips that the spec does not name: with the tiles that are derived, plan and TileLang agree."""

import pytest

from tilegen.check.checker import check
from tilegen.emit.artefacts import compile_key
from tilegen.emit.rendering import factory_parameters, render
from tilegen.plan.instances import instances
from tilegen.spec import Severity, load_bytes
from tilegen.verify.compare import disagreements
from tilegen.verify.expected import expected
from tilegen.verify.pipeline import instruction_patterns
from tilegen.verify.worker import observe

SPEC = """\
kernel = "mla_decode"
family = "attention"
variant = "mla_decode"

[dims]
B = { dynamic = true, max = 4096 }
H = { values = [16] }
S = { dynamic = true, max = 65_536 }
D_nope = { values = [512] }
D_rope = { values = [64] }

[compute]
scale = "(D_nope + D_rope) ** -0.5"

[target.ARCH]
"""


@pytest.mark.slow
@pytest.mark.parametrize("heads", [48, 80])
def test_delayed_lowers_as_planned_where_the_heads_do_not_fill_a_block(heads):
    text = (
        SPEC.replace("ARCH", "sm_90a").replace("[16]", f"[{heads}]").replace("[dims]", 'schedule = "delayed"\n\n[dims]')
    )
    spec = load_bytes(f"{text}[tile]\nBLOCK_H = 64\n".encode(), "mla.toml")
    parameters, source = factory_parameters(spec), render(spec).files["kernel.py"]
    for instance in list(instances(spec, "sm_90a"))[:1]:
        key = compile_key(instance, parameters)
        [observed] = observe(source, instruction_patterns(), [key], "sm_90a", with_ptxas=False)
        assert disagreements(expected(instance), observed) == []


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_86", "sm_89", "sm_100a", "sm_120a", "gfx942"])
def test_derived_tiles_pass_the_checks_and_lower_as_planned(arch):
    spec = load_bytes(SPEC.replace("ARCH", arch).encode(), "mla.toml")
    assert not [entry for entry in check(spec).diagnostics if entry.severity is Severity.ERROR]
    instance = next(iter(instances(spec, arch)))
    parameters = factory_parameters(spec)
    source = render(spec).files["kernel.py"]
    [observed] = observe(source, instruction_patterns(), [compile_key(instance, parameters)], arch, with_ptxas=False)
    assert disagreements(expected(instance), observed) == []
