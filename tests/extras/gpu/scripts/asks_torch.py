"""Prints the versions of PyTorch and CUDA if there is a card."""

import torch

if torch.cuda.is_available():
    torch.ones(1, device="cuda")
    print(torch.__version__, torch.version.cuda)
