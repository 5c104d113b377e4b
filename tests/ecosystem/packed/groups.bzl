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

# Libraries that a group's cases import, but that the group's libraries do not require.
EXTRA_LIBRARIES = {
    "lightning": ["torchvision"],  # torchmetrics/detection
}
