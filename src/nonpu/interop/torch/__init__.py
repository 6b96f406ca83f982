"""The operators on PyTorch's tensors; imported only where PyTorch is."""
