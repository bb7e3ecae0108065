"""Proofs that a spec's tiling is legal: the rules, the prover, and what they report."""
