"""From a checked spec to the generated tree."""
