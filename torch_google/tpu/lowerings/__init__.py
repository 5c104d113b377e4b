# SPDX-License-Identifier: Apache-2.0
"""What each operator of torch is in JAX: one module for each family of operators."""

from torch_google.tpu.lowerings import (
    activations as activations,
)
from torch_google.tpu.lowerings import (
    adaptive_pooling as adaptive_pooling,
)
from torch_google.tpu.lowerings import (
    attention as attention,
)
from torch_google.tpu.lowerings import (
    batch_norm as batch_norm,
)
from torch_google.tpu.lowerings import (
    bessel as bessel,
)
from torch_google.tpu.lowerings import (
    blocks as blocks,
)
from torch_google.tpu.lowerings import (
    class_losses as class_losses,
)
from torch_google.tpu.lowerings import (
    comparison as comparison,
)
from torch_google.tpu.lowerings import (
    convolution as convolution,
)
from torch_google.tpu.lowerings import (
    creation as creation,
)
from torch_google.tpu.lowerings import (
    ctc_loss as ctc_loss,
)
from torch_google.tpu.lowerings import (
    distances as distances,
)
from torch_google.tpu.lowerings import (
    embedding as embedding,
)
from torch_google.tpu.lowerings import (
    extrema as extrema,
)
from torch_google.tpu.lowerings import (
    factorizations as factorizations,
)
from torch_google.tpu.lowerings import (
    fourier as fourier,
)
from torch_google.tpu.lowerings import (
    grid_sampling as grid_sampling,
)
from torch_google.tpu.lowerings import (
    histograms as histograms,
)
from torch_google.tpu.lowerings import (
    indefinite as indefinite,
)
from torch_google.tpu.lowerings import (
    indexing as indexing,
)
from torch_google.tpu.lowerings import (
    linear_systems as linear_systems,
)
from torch_google.tpu.lowerings import (
    losses as losses,
)
from torch_google.tpu.lowerings import (
    matmul as matmul,
)
from torch_google.tpu.lowerings import (
    meta_kernels as meta_kernels,
)
from torch_google.tpu.lowerings import (
    normalization as normalization,
)
from torch_google.tpu.lowerings import (
    optimizers as optimizers,
)
from torch_google.tpu.lowerings import (
    orthogonal as orthogonal,
)
from torch_google.tpu.lowerings import (
    padding as padding,
)
from torch_google.tpu.lowerings import (
    pointwise_binary as pointwise_binary,
)
from torch_google.tpu.lowerings import (
    pointwise_unary as pointwise_unary,
)
from torch_google.tpu.lowerings import (
    pooling as pooling,
)
from torch_google.tpu.lowerings import (
    prims as prims,
)
from torch_google.tpu.lowerings import (
    random as random,
)
from torch_google.tpu.lowerings import (
    recurrent as recurrent,
)
from torch_google.tpu.lowerings import (
    recurrent_operators as recurrent_operators,
)
from torch_google.tpu.lowerings import (
    reductions as reductions,
)
from torch_google.tpu.lowerings import (
    scans as scans,
)
from torch_google.tpu.lowerings import (
    segments as segments,
)
from torch_google.tpu.lowerings import (
    shapes as shapes,
)
from torch_google.tpu.lowerings import (
    softmax as softmax,
)
from torch_google.tpu.lowerings import (
    sorting as sorting,
)
from torch_google.tpu.lowerings import (
    special as special,
)
from torch_google.tpu.lowerings import (
    upsampling as upsampling,
)
from torch_google.tpu.lowerings import (
    weight_norm as weight_norm,
)
from torch_google.tpu.lowerings.layouts import laid_out
from torch_google.tpu.lowerings.table import Lowering, find, is_pinned, lowering, name_of, names

__all__ = ["Lowering", "find", "is_pinned", "laid_out", "lowering", "name_of", "names"]
