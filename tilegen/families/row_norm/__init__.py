"""Normalisation of rows: RMS, layer, L2 and softmax."""
