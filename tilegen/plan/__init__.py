"""The tile plan: model, cases, instances and resources."""
