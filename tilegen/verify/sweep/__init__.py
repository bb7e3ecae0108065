"""The truth sweep: random specs around the limits, and what the checker says of each against what the compiler does.

``python -m tilegen.verify.sweep --family gemm --target sm_90a --samples 500 --seed 0`` goes four steps:

1. ``draw``: specs, legal or not, half of them within one step of a limit. A sample follows from the seed and its number.
2. ``predict``: the checker's verdict, the facts that the plan predicts, and the rendered program, checked or not.
3. ``observe``: TileLang lowers every program and nvcc compiles it, each in a worker process with a time limit. What came
   out is kept by the content of the program, so a killed run goes on and an old observation serves a new checker.
4. ``judge`` and ``report``: predictions against observations, one JSON line a sample, and the page under docs/truth.

Steps 1, 2 and 4 need neither torch nor tilelang; ``--prepare`` and ``tilegen.verify.sweep.observe`` run step 3 elsewhere.
"""
