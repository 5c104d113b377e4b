# SPDX-License-Identifier: Apache-2.0
"""Test cases for privacy, manifolds, curvature, pruning, operators and poses."""

from __future__ import annotations

from typing import Any

import torch

from tests.ecosystem.case import COMPILE, EAGER, STRICT, Run, case


def _mlp() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))


def _gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def _per_sample(run: Run, layer: torch.nn.Module, *inputs: torch.Tensor) -> Any:
    from opacus import GradSampleModule

    model = GradSampleModule(run.put(layer))
    output = run.compiled(model)(*run.put(inputs))
    (output[0] if isinstance(output, tuple) else output).square().sum().backward()
    return {name: parameter.grad_sample for name, parameter in model.named_parameters()}


@case("opacus")
def private_convolutions(run: Run) -> Any:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3, stride=2, padding=1), torch.nn.GroupNorm(2, 4), torch.nn.ReLU(),
        torch.nn.Conv2d(4, 4, 3, groups=2), torch.nn.Flatten(), torch.nn.Linear(16, 2),
    )  # fmt: skip
    return _per_sample(run, model, torch.randn(3, 2, 8, 8))


@case("opacus")
def private_embeddings(run: Run) -> Any:
    model = torch.nn.Sequential(torch.nn.Embedding(8, 4), torch.nn.LayerNorm(4))
    return _per_sample(run, model, torch.randint(0, 8, (3, 5)))


@case("opacus")
def private_attention(run: Run) -> Any:
    from opacus.layers import DPMultiheadAttention

    queries = [torch.randn(4, 3, 8) for _ in range(3)]
    return _per_sample(run, DPMultiheadAttention(8, 2, dropout=0.0), *queries)


@case("opacus")
def private_training(run: Run) -> Any:
    from opacus import PrivacyEngine

    inputs = torch.randn(8, 4)
    data = torch.utils.data.TensorDataset(inputs, inputs[:, :2])
    model = run.put(_mlp())
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), 0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=4), noise_multiplier=0.0,
        max_grad_norm=0.5, poisson_sampling=False,
    )  # fmt: skip
    forward = run.compiled(model)
    for batch in loader:
        x, y = run.put(batch)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(forward(x), y).backward()
        optimizer.step()
    return list(model.parameters())


@case("geoopt")
def matrix_manifolds(run: Run) -> Any:
    import geoopt

    square = torch.randn(3, 3)
    positive = square @ square.T + torch.eye(3)
    square, positive, tangent = run.put([square, positive, torch.randn(3, 3) * 0.1])
    matrices, stiefel, lorentz = run.put(
        [geoopt.SymmetricPositiveDefinite(), geoopt.CanonicalStiefel(), geoopt.Lorentz()]
    )
    sphere = geoopt.Sphere()

    def apply(square: torch.Tensor, positive: torch.Tensor, tangent: torch.Tensor) -> Any:
        tangent_to = matrices.proju(positive, tangent)
        orthogonal = stiefel.projx(square)
        return [
            matrices.expmap(positive, tangent_to), matrices.dist(positive, positive * 2),
            orthogonal.T @ orthogonal, lorentz.projx(square),
            sphere.dist(*torch.nn.functional.normalize(square[:2], dim=1)),
        ]  # fmt: skip

    return run.compiled(apply)(square, positive, tangent)


@case("geoopt")
def riemannian_sgd(run: Run) -> Any:
    import geoopt

    ball = run.put(geoopt.PoincareBall(learnable=True))
    point = geoopt.ManifoldParameter(run.put(torch.rand(3, 2) * 0.3), manifold=ball)
    optimizer = geoopt.optim.RiemannianSGD([point], lr=0.1, momentum=0.9)
    target = run.put(torch.rand(3, 2) * 0.3)
    # Not the optimizer's steps: Dynamo treats `point` as an ordinary parameter, on any device.
    distance = run.compiled(ball.dist)
    for _ in range(2):
        optimizer.zero_grad()
        distance(point, target).square().sum().backward()
        optimizer.step()
    return point


@case("laplace_torch")
def diagonal_laplace(run: Run) -> Any:
    from laplace import Laplace

    data = torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randn(8, 2))
    posterior = Laplace(
        run.put(_mlp()), "regression", subset_of_weights="all", hessian_structure="diag"
    )
    posterior.fit(torch.utils.data.DataLoader(data, batch_size=4))
    predictions = run.compiled(posterior)(run.put(torch.randn(3, 4)))
    return posterior.H, posterior.posterior_variance, predictions


@case("curvlinops_for_pytorch")
def fisher_and_kronecker(run: Run) -> Any:
    from curvlinops import EFLinearOperator, KFACLinearOperator

    model = run.put(_mlp())
    data = [tuple(run.put([torch.randn(5, 4), torch.randn(5, 2)]))]
    parameters = list(model.parameters())
    products = []
    for kind, settings in ((EFLinearOperator, {}), (KFACLinearOperator, {"fisher_type": "type-2"})):
        operator = kind(
            model, torch.nn.MSELoss(), parameters, data, check_deterministic=False, **settings
        )
        multiply = run.compiled(operator.__matmul__)
        products.append(multiply(run.put(torch.ones(operator.shape[1]))))
    return products


@case("backpack_for_pytorch")
def kronecker_factors(run: Run) -> Any:
    from backpack import backpack, extend
    from backpack.extensions import KFLR, BatchL2Grad, DiagHessian, SumGradSquared

    model = extend(run.put(_mlp()))
    forward = run.compiled(model)
    loss = extend(torch.nn.MSELoss())
    inputs, target = run.put([torch.randn(4, 4), torch.randn(4, 2)])
    with backpack(BatchL2Grad(), DiagHessian(), SumGradSquared(), KFLR()):
        loss(forward(inputs), target).backward()
    return [[p.batch_l2, p.diag_h, p.sum_grad_squared, p.kflr] for p in model.parameters()]


@case("torchjd")
def aggregators(run: Run) -> Any:
    from torchjd import aggregation

    matrix = run.put(torch.randn(5, 6))
    kinds = [
        aggregation.PCGrad(), aggregation.AlignedMTL(), aggregation.IMTLG(), aggregation.Sum(),
        aggregation.TrimmedMean(1), aggregation.Krum(1, 1), aggregation.ConFIG(),
    ]  # fmt: skip
    return [run.compiled(kind)(matrix) for kind in kinds]


# It computes gradients under vmap, which compiled functions reject on any device.
@case("torchjd", modes=EAGER)
def shared_features(run: Run) -> Any:
    from torchjd.autojac import mtl_backward

    body, heads = run.put(_mlp()), [run.put(torch.nn.Linear(2, 1)) for _ in range(2)]
    features = body(run.put(torch.randn(5, 4)))
    losses = [head(features).square().mean() for head in heads]
    mtl_backward(losses, features=features)
    return losses, [p.jac for p in body.parameters()], [_gradients(head) for head in heads]


@case("torchopt")
def chained_transformations(run: Run) -> Any:
    import torchopt

    model = run.put(_mlp())
    inputs = run.put(torch.randn(5, 4))
    parameters = dict(model.named_parameters())
    optimizer = torchopt.chain(torchopt.clip.clip_grad_norm(1.0), torchopt.rmsprop(0.01))
    state = optimizer.init(parameters)

    def step(parameters: Any, gradients: Any, state: Any) -> Any:
        updates, state = optimizer.update(gradients, state, inplace=False)
        return torchopt.apply_updates(parameters, updates, inplace=False), state

    step = run.compiled(step)
    for _ in range(2):
        output = torch.func.functional_call(model, parameters, (inputs,))
        gradients = torch.autograd.grad(output.square().mean(), tuple(parameters.values()))
        parameters, state = step(parameters, dict(zip(parameters, gradients, strict=True)), state)
    return parameters


@case("torchopt", modes=EAGER)
def implicit_gradient(run: Run) -> Any:
    from torchopt.diff.implicit import custom_root

    target, weight = run.put([torch.randn(3), torch.tensor(0.5)])

    def stationary(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (x - target) + weight * x

    @custom_root(stationary, argnums=1)
    def solve(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return target / (1 + weight)

    weight.requires_grad_()
    solution = solve(torch.zeros_like(target), weight, target)
    return solution, torch.autograd.grad(solution.sum(), weight)


@case("torch_pruning", modes=(STRICT, COMPILE))
def pruned_convolutions(run: Run) -> Any:
    import torch_pruning as tp

    model = run.put(torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        torch.nn.Linear(8, 2),
    ))  # fmt: skip
    example = run.put(torch.randn(2, 3, 8, 8))
    model(example).square().sum().backward()
    pruner = tp.pruner.BasePruner(
        model, example, importance=tp.importance.GroupTaylorImportance(), pruning_ratio=0.5,
        ignored_layers=[model[6]], global_pruning=True,
    )  # fmt: skip
    pruner.step()
    return run.compiled(model.eval())(example), [p.shape.numel() for p in model.parameters()]


@case("neuraloperator")
def spectral_layer(run: Run) -> Any:
    from neuralop.layers.spectral_convolution import SpectralConv

    layer = run.put(SpectralConv(2, 3, n_modes=(4, 4)))
    output = run.compiled(layer)(run.put(torch.randn(2, 2, 8, 8)))
    output.square().sum().backward()
    return output, _gradients(layer)


@case("neuraloperator")
def operator_losses(run: Run) -> Any:
    from neuralop.losses import H1Loss, LpLoss

    a, b = run.put([torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8)])
    a.requires_grad_()
    kinds = (LpLoss(d=2), H1Loss(d=2))
    loss = run.compiled(lambda a: kinds[0](a, b) + kinds[1](a, b))(a)
    return loss, torch.autograd.grad(loss, a)


# Not compiled: Dynamo recurses without end in the library's subclass of Tensor, on any device.
@case("pypose", modes=EAGER)
def rigid_motions(run: Run) -> Any:
    import pypose

    twists = run.put(torch.randn(3, 6) * 0.3).requires_grad_()
    points, similar = run.put([torch.randn(3, 3), torch.randn(3, 7) * 0.3])

    def apply(twists: torch.Tensor, similar: torch.Tensor) -> list[torch.Tensor]:
        motions = pypose.se3(twists).Exp()
        moved = (motions @ motions.Inv() @ motions).Act(points)
        other = pypose.sim3(similar).Exp().Act(points)
        return [moved, motions.matrix(), other, motions.Log().tensor()]

    results = run.compiled(apply)(twists, similar)
    return results, torch.autograd.grad(results[0].square().sum(), twists)


@case("pypose", modes=EAGER)
def pose_optimizer(run: Run) -> Any:
    import pypose

    class Inverse(torch.nn.Module):
        def __init__(self, start: torch.Tensor) -> None:
            super().__init__()
            self.pose = pypose.Parameter(pypose.se3(start).Exp())

        def forward(self, motion: Any) -> Any:
            return (self.pose @ motion).Log().tensor()

    model = run.put(Inverse(torch.randn(2, 6) * 0.2))
    motion = pypose.se3(run.put(torch.randn(2, 6) * 0.2)).Exp()
    optimizer = pypose.optim.LM(model, strategy=pypose.optim.strategy.Constant(1e-4))
    return [optimizer.step(motion) for _ in range(2)], model.pose.tensor()


@case("pypose")
def projected_points(run: Run) -> Any:
    import pypose

    points, camera = torch.rand(2, 4, 3) + 1, torch.tensor([[4.0, 0, 3], [0, 4, 3], [0, 0, 1]])

    def apply(points: torch.Tensor, camera: torch.Tensor) -> list[torch.Tensor]:
        pixels = pypose.point2pixel(points, camera)
        return [
            pixels, pypose.pixel2point(pixels, points[..., 2], camera), pypose.cart2homo(points),
            pypose.homo2cart(points), pypose.vec2skew(points),
        ]  # fmt: skip

    return run.compiled(apply)(*run.put([points, camera]))
