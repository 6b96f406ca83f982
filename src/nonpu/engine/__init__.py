"""The engine: plans, kernels and how both are compiled and found."""
