"""Where a model is timed: devices, the measuring protocol, readings. Imports no torch."""
