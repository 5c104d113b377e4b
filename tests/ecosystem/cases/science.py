# SPDX-License-Identifier: Apache-2.0
"""Test cases for graph, probability, ODE, privacy and interpretability libraries."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import torch

from tests.ecosystem.case import EAGER, STRICT, Run, case


def _graph() -> tuple[torch.Tensor, torch.Tensor]:
    edges = torch.tensor([[0, 1, 1, 2, 3, 4, 4, 0], [1, 0, 2, 1, 4, 3, 0, 4]])
    return torch.randn(5, 4), edges


def _mlp() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))


def _gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@case("torch_geometric")
def gcn(run: Run) -> Any:
    from torch_geometric.nn import GCN

    return run.train(GCN(4, 8, 2, 3), _graph())


@case("torch_geometric")
def gat(run: Run) -> Any:
    from torch_geometric.nn import GATv2Conv

    return run.train(GATv2Conv(4, 3, heads=2), _graph())


@case("torch_geometric")
def sage(run: Run) -> Any:
    from torch_geometric.nn import GraphSAGE

    return run.train(GraphSAGE(4, 8, 2, 3), _graph())


@case("torch_geometric", modes=EAGER)
def gin_and_pooling(run: Run) -> Any:
    from torch_geometric.nn import GINConv, global_add_pool, global_max_pool, global_mean_pool

    layer = run.put(GINConv(_mlp()))
    x, edges = run.put(_graph())
    batch = run.put(torch.tensor([0, 0, 0, 1, 1]))
    output = layer(x, edges)
    pools = [pool(output, batch) for pool in (global_add_pool, global_mean_pool, global_max_pool)]
    sum(pool.square().sum() for pool in pools).backward()
    return pools, _gradients(layer)


@case("torch_geometric", modes=EAGER)
def sparse_adjacency(run: Run) -> Any:
    from torch_geometric.nn import GCNConv
    from torch_geometric.utils import to_torch_coo_tensor

    layer = run.put(GCNConv(4, 3, cached=False))
    x, edges = run.put(_graph())
    adjacency = to_torch_coo_tensor(edges, size=(5, 5))
    return layer(x, adjacency.t())


@case("torch_geometric", modes=EAGER)
def graph_utilities(run: Run) -> Any:
    from torch_geometric.data import Batch, Data
    from torch_geometric.utils import add_self_loops, degree, softmax, to_dense_adj, to_undirected

    x, edges = _graph()
    batch = Batch.from_data_list([Data(x=x, edge_index=edges) for _ in range(2)]).to(run.device)
    return [
        batch.x, batch.edge_index, batch.batch, degree(batch.edge_index[0]),
        to_dense_adj(batch.edge_index, batch.batch), to_undirected(batch.edge_index),
        add_self_loops(batch.edge_index)[0], softmax(batch.x[:, 0], batch.batch),
    ]  # fmt: skip


@case("pykeen", modes=EAGER)
def knowledge_graph(run: Run) -> Any:
    import numpy
    from pykeen.models import TransE
    from pykeen.triples import TriplesFactory

    triples = numpy.array([["a", "r", "b"], ["b", "r", "c"], ["c", "s", "a"]])
    factory = TriplesFactory.from_labeled_triples(triples)
    model = run.put(TransE(triples_factory=factory, embedding_dim=4, random_seed=0))
    scores = model.score_hrt(run.put(factory.mapped_triples))
    scores.sum().backward()
    return scores, _gradients(model)


@case("e3nn", modes=EAGER)
def spherical_harmonics(run: Run) -> Any:
    from e3nn import o3

    x = run.put(torch.randn(4, 3)).requires_grad_()
    harmonics = o3.spherical_harmonics("0e + 1o + 2e", x, normalize=True)
    return harmonics, torch.autograd.grad(harmonics.square().sum() + harmonics.sum(), x)


@case("e3nn", modes=EAGER)
def tensor_product(run: Run) -> Any:
    from e3nn import o3

    layer = run.put(o3.FullyConnectedTensorProduct("2x0e + 1x1o", "1x0e + 1x1o", "2x0e + 1x1o"))
    a, b = run.put([torch.randn(3, 5), torch.randn(3, 4)])
    output = layer(a, b)
    output.square().sum().backward()
    return output, _gradients(layer)


@case("gpytorch", modes=EAGER)
def exact_gp(run: Run) -> Any:
    import gpytorch

    x = run.put(torch.linspace(0, 1, 8))
    y = torch.sin(x * 6)

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    likelihood = run.put(gpytorch.likelihoods.GaussianLikelihood())
    model = run.put(Model(likelihood))
    loss = -gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)(model(x), y)
    loss.backward()
    gradients = _gradients(model)
    model.eval()
    with torch.no_grad():
        prediction = model(run.put(torch.tensor([0.25, 0.6])))
    return loss, gradients, prediction.mean, prediction.variance


@case("gpytorch", modes=EAGER)
def kernels(run: Run) -> Any:
    from gpytorch import kernels

    x = run.put(torch.randn(5, 2))
    kinds = (kernels.MaternKernel, kernels.RQKernel, kernels.LinearKernel, kernels.PeriodicKernel)
    return [run.put(kind())(x).to_dense() for kind in kinds]


@case("linear_operator", modes=EAGER)
def operators(run: Run) -> Any:
    from linear_operator.operators import DenseLinearOperator, DiagLinearOperator

    x = run.put(torch.randn(5, 5))
    matrix = DenseLinearOperator(x @ x.T) + DiagLinearOperator(run.put(torch.ones(5) * 3))
    right = run.put(torch.randn(5, 2))
    return [matrix.to_dense(), matrix.solve(right), matrix.logdet(), matrix.cholesky().to_dense()]


@case("botorch", modes=EAGER)
def acquisition(run: Run) -> Any:
    from botorch.acquisition import LogExpectedImprovement
    from botorch.models import SingleTaskGP

    x = torch.rand(6, 2, dtype=torch.float64)
    x, y = run.put([x, (x * x).sum(1, keepdim=True)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SingleTaskGP(x, y).to(run.device)
    at = run.put(torch.full((1, 1, 2), 0.4, dtype=torch.float64)).requires_grad_()
    value = LogExpectedImprovement(model, best_f=y.max())(at)
    return value, torch.autograd.grad(value.sum(), at)


@case("botorch", modes=EAGER)
def pareto(run: Run) -> Any:
    from botorch.utils.multi_objective.pareto import is_non_dominated
    from botorch.utils.transforms import normalize, standardize

    y = run.put(torch.rand(8, 2, dtype=torch.float64))
    bounds = run.put(torch.tensor([[0.0, 0.0], [2.0, 2.0]], dtype=torch.float64))
    return is_non_dominated(y), standardize(y), normalize(y, bounds)


@case("opacus", modes=EAGER)
def per_sample_gradients(run: Run) -> Any:
    from opacus import GradSampleModule

    model = GradSampleModule(run.put(_mlp()))
    model(run.put(torch.randn(3, 4))).square().sum().backward()
    return {name: parameter.grad_sample for name, parameter in model.named_parameters()}


@case("opacus", modes=EAGER)
def private_layers(run: Run) -> Any:
    from opacus import GradSampleModule
    from opacus.layers import DPLSTM

    model = GradSampleModule(run.put(DPLSTM(3, 4, batch_first=True)))
    model(run.put(torch.randn(2, 5, 3)))[0].sum().backward()
    return {name: parameter.grad_sample for name, parameter in model.named_parameters()}


def _captum(run: Run, kind: str, **options: Any) -> Any:
    from captum import attr

    model = run.put(_mlp()).eval()
    x = run.put(torch.randn(3, 4))
    return getattr(attr, kind)(model).attribute(x, target=1, **options)


@case("captum", modes=EAGER)
def integrated_gradients(run: Run) -> Any:
    return _captum(run, "IntegratedGradients", n_steps=5)


@case("captum", modes=EAGER)
def saliency(run: Run) -> Any:
    return [_captum(run, kind) for kind in ("Saliency", "InputXGradient", "Deconvolution")]


@case("captum", modes=EAGER)
def occlusion(run: Run) -> Any:
    return _captum(run, "Occlusion", sliding_window_shapes=(2,))


@case("pyro_ppl", modes=EAGER)
def distributions(run: Run) -> Any:
    import pyro.distributions as dist

    loc, scale = run.put([torch.zeros(3), torch.ones(3) * 2])
    x = run.put(torch.tensor([0.1, 0.5, 0.9]))
    kinds = [dist.Normal(loc, scale), dist.Gamma(scale, scale), dist.StudentT(scale, loc, scale)]
    kinds += [dist.Beta(scale, scale), dist.MultivariateNormal(loc, torch.diag(scale))]
    return [kind.log_prob(x) for kind in kinds]


@case("pyro_ppl", modes=EAGER)
def elbo(run: Run) -> Any:
    import pyro
    import pyro.distributions as dist
    from pyro.infer import TraceMeanField_ELBO

    data = run.put(torch.randn(6))
    pyro.clear_param_store()

    def model() -> None:
        mean = run.put(torch.tensor(0.0))
        z = pyro.sample("z", dist.Delta(mean + 0.5))
        with pyro.plate("data", 6):
            pyro.sample("x", dist.Normal(z, mean + 1), obs=data)

    def guide() -> None:
        place = pyro.param("place", run.put(torch.tensor(0.3)))
        pyro.sample("z", dist.Delta(place))

    loss = TraceMeanField_ELBO().differentiable_loss(model, guide)
    return loss, torch.autograd.grad(loss, pyro.param("place"))


@case("torchdiffeq", modes=EAGER)
def ode(run: Run) -> Any:
    from torchdiffeq import odeint, odeint_adjoint

    model = run.put(torch.nn.Linear(2, 2))

    class Field(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = model

        def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.layer(y))

    start, times = run.put([torch.randn(3, 2), torch.linspace(0, 1, 3)])
    fixed = odeint(Field(), start, times, method="rk4")
    adaptive = odeint_adjoint(Field(), start, times, method="dopri5", rtol=1e-3, atol=1e-3)
    adaptive.sum().backward()
    return fixed, adaptive, _gradients(model)


@case("torchsde", modes=EAGER)
def sde(run: Run) -> Any:
    import torchsde

    class Motion(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def f(self, t: Any, y: torch.Tensor) -> torch.Tensor:
            return -y

        def g(self, t: Any, y: torch.Tensor) -> torch.Tensor:
            return torch.zeros_like(y)

    start, times = run.put([torch.ones(3, 2), torch.linspace(0, 1, 3)])
    return torchsde.sdeint(run.put(Motion()), start, times, dt=0.25, method="euler")


@case("torchcde", modes=EAGER)
def cde(run: Run) -> Any:
    import torchcde

    x = run.put(torch.randn(2, 5, 3))
    coefficients = torchcde.hermite_cubic_coefficients_with_backward_differences(x)
    spline = torchcde.CubicSpline(coefficients)
    point = run.put(torch.tensor(1.3))
    return spline.evaluate(point), spline.derivative(point), torchcde.natural_cubic_coeffs(x)


@case("torchquad", modes=EAGER)
def quadrature(run: Run) -> Any:
    from torchquad import Simpson, Trapezoid

    domain = run.put(torch.tensor([[0.0, 1.0], [0.0, 2.0]]))
    with contextlib.redirect_stdout(io.StringIO()):
        return [
            kind().integrate(lambda x: torch.sin(x[:, 0]) * x[:, 1], 2, 49, domain, backend="torch")
            for kind in (Trapezoid, Simpson)
        ]


@case("zuko", modes=EAGER)
def flow(run: Run) -> Any:
    import zuko

    flow = run.put(zuko.flows.NSF(features=3, context=0, transforms=1, hidden_features=(8,)))
    loss = -flow().log_prob(run.put(torch.randn(4, 3))).mean()
    loss.backward()
    return loss, _gradients(flow)


@case("zuko", modes=EAGER)
def masked_flow(run: Run) -> Any:
    import zuko

    flow = run.put(zuko.flows.MAF(features=3, context=2, transforms=2, hidden_features=(8,)))
    loss = -flow(run.put(torch.randn(4, 2))).log_prob(run.put(torch.randn(4, 3))).mean()
    loss.backward()
    return loss, _gradients(flow)


@case("geoopt", modes=EAGER)
def hyperbolic(run: Run) -> Any:
    import geoopt

    ball = run.put(geoopt.PoincareBall())
    a, b = run.put([torch.rand(3, 2) * 0.3, torch.rand(3, 2) * 0.3])
    return ball.dist(a, b), ball.expmap(a, b), ball.logmap(a, b), ball.mobius_add(a, b)


@case("geoopt", modes=EAGER)
def riemannian_adam(run: Run) -> Any:
    import geoopt

    point = geoopt.ManifoldParameter(
        run.put(torch.nn.functional.normalize(torch.randn(3, 4), dim=1)), manifold=geoopt.Sphere()
    )
    optimizer = geoopt.optim.RiemannianAdam([point], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (point * run.put(torch.arange(4.0))).sum().backward()
        optimizer.step()
    return point


@case("laplace_torch", modes=EAGER)
def laplace(run: Run) -> Any:
    from laplace import Laplace

    data = torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,)))
    model = run.put(_mlp())
    posterior = Laplace(
        model, "classification", subset_of_weights="last_layer", hessian_structure="full"
    )
    posterior.fit(torch.utils.data.DataLoader(data, batch_size=4))
    return posterior.H, posterior.log_marginal_likelihood()


@case("curvlinops_for_pytorch", modes=EAGER)
def curvature(run: Run) -> Any:
    from curvlinops import GGNLinearOperator, HessianLinearOperator

    model = run.put(_mlp())
    data = [tuple(run.put([torch.randn(5, 4), torch.randn(5, 2)]))]
    parameters = list(model.parameters())
    products = []
    for kind in (HessianLinearOperator, GGNLinearOperator):
        operator = kind(model, torch.nn.MSELoss(), parameters, data, check_deterministic=False)
        products.append(operator @ run.put(torch.ones(operator.shape[1])))
    return products


@case("backpack_for_pytorch", modes=EAGER)
def second_order(run: Run) -> Any:
    from backpack import backpack, extend
    from backpack.extensions import BatchGrad, DiagGGNExact, Variance

    model = extend(run.put(_mlp()))
    loss = extend(torch.nn.CrossEntropyLoss())
    inputs, target = run.put([torch.randn(4, 4), torch.randint(0, 2, (4,))])
    with backpack(BatchGrad(), DiagGGNExact(), Variance()):
        loss(model(inputs), target).backward()
    return [[p.grad_batch, p.diag_ggn_exact, p.variance] for p in model.parameters()]


@case("torchjd", modes=EAGER)
def aggregated_gradients(run: Run) -> Any:
    from torchjd.aggregation import MGDA, Mean
    from torchjd.autojac import backward

    model = run.put(_mlp())
    output = model(run.put(torch.randn(5, 4)))
    matrix = run.put(torch.randn(3, 6))
    backward([output[:, 0].mean(), output[:, 1].square().mean()])
    return [kind()(matrix) for kind in (Mean, MGDA)]


@case("torchopt", modes=EAGER)
def functional_optimizer(run: Run) -> Any:
    import torchopt

    return run.train(
        _mlp(), [torch.randn(5, 4)], optimizer=lambda p: torchopt.AdamW(list(p), lr=1e-3)
    )


@case("torchopt", modes=EAGER)
def meta_learning(run: Run) -> Any:
    import torchopt

    model = run.put(_mlp())
    rate = run.put(torch.tensor(0.5)).requires_grad_()
    inputs = run.put(torch.randn(5, 4))
    optimizer = torchopt.MetaSGD(model, lr=0.1)
    optimizer.step((model(inputs) * rate).square().mean())
    loss = model(inputs).square().mean()
    return loss, torch.autograd.grad(loss, rate)


@case("torch_pruning", modes=(STRICT,))
def pruned(run: Run) -> Any:
    import torch_pruning as tp

    model = run.put(_mlp())
    example = run.put(torch.randn(2, 4))
    pruner = tp.pruner.MagnitudePruner(
        model, example, importance=tp.importance.MagnitudeImportance(p=2), pruning_ratio=0.5,
        ignored_layers=[model[2]],
    )  # fmt: skip
    pruner.step()
    return model(example), dict(model.named_parameters())


@case("neuraloperator", modes=EAGER)
def fourier_operator(run: Run) -> Any:
    from neuralop.models import FNO

    # Not with run.train: the library's state_dict contains functions, which torch.load rejects.
    model = FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=4, n_layers=1)
    model = run.put(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    output = model(run.put(torch.randn(1, 1, 8, 8)))
    output.square().mean().backward()
    optimizer.step()
    return output, _gradients(model), dict(model.named_parameters())


@case("pypose", modes=EAGER)
def poses(run: Run) -> Any:
    import pypose

    rotations = pypose.so3(run.put(torch.randn(3, 3) * 0.4)).Exp()
    points = run.put(torch.randn(3, 3))
    moved = rotations.Act(points)
    return moved, rotations.Inv().tensor(), rotations.Log().tensor(), rotations.matrix()
