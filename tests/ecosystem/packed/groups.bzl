# SPDX-License-Identifier: Apache-2.0
"""The locked libraries that have cases; each group has a program and a test."""

# Libraries by lock in third_party/pypi ("main": lock.json), and the number of shards of their test.
# groups_test compares this table with the locks.
GROUPS = {
    "data": (["torchdata"], 1),
    "hf": (["accelerate", "peft", "transformers"], 5),
    "lightning": (["lightning", "torchmetrics"], 2),
    "main": (["safetensors"], 1),
    "pyg": (["torch_geometric"], 2),
    "vision": (["timm", "torchvision"], 3),
}

# Libraries that the cases of a group use, but that its own libraries do not require.
USED_BY_CASES = {
    "lightning": ["torchvision"],  # torchmetrics/detection
}
