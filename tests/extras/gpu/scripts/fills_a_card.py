"""Holds so many MiB of a card until its standard input ends."""

import sys

import torch

held = torch.empty(int(sys.argv[1]) * 2**20, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("full", flush=True)
sys.stdin.read()
