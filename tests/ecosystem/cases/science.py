# SPDX-License-Identifier: Apache-2.0
"""Test cases for graph, probability, ODE, privacy and interpretability libraries."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import torch

from tests.ecosystem.case import COMPILE, EAGER, STRICT, Run, case


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


@case("torch_geometric")
def gin_and_pooling(run: Run) -> Any:
    from torch_geometric.nn import GINConv, global_add_pool, global_max_pool, global_mean_pool

    layer = run.put(GINConv(_mlp()))
    x, edges = run.put(_graph())
    batch = run.put(torch.tensor([0, 0, 0, 1, 1]))
    kinds = (global_add_pool, global_mean_pool, global_max_pool)

    def pooled(x: torch.Tensor) -> list[torch.Tensor]:
        output = layer(x, edges)
        return [pool(output, batch) for pool in kinds]

    pools = run.compiled(pooled)(x)
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


@case("torch_geometric")
def graph_utilities(run: Run) -> Any:
    from torch_geometric.data import Batch, Data
    from torch_geometric.utils import add_self_loops, degree, softmax, to_dense_adj, to_undirected

    x, edges = _graph()
    graphs = Batch.from_data_list([Data(x=x, edge_index=edges) for _ in range(2)]).to(run.device)

    def apply(x: torch.Tensor, edges: torch.Tensor, batch: torch.Tensor) -> list[torch.Tensor]:
        return [
            degree(edges[0]), to_dense_adj(edges, batch), to_undirected(edges),
            add_self_loops(edges)[0], softmax(x[:, 0], batch),
        ]  # fmt: skip

    tensors = [graphs.x, graphs.edge_index, graphs.batch]
    return tensors, run.compiled(apply)(*tensors)


@case("pykeen")
def knowledge_graph(run: Run) -> Any:
    import numpy
    from pykeen.models import TransE
    from pykeen.triples import TriplesFactory

    triples = numpy.array([["a", "r", "b"], ["b", "r", "c"], ["c", "s", "a"]])
    factory = TriplesFactory.from_labeled_triples(triples)
    model = run.put(TransE(triples_factory=factory, embedding_dim=4, random_seed=0))
    scores = run.compiled(model.score_hrt)(run.put(factory.mapped_triples))
    scores.sum().backward()
    return scores, _gradients(model)


@case("e3nn")
def spherical_harmonics(run: Run) -> Any:
    from e3nn import o3

    x = run.put(torch.randn(4, 3)).requires_grad_()
    layer = o3.SphericalHarmonics("0e + 1o + 2e", normalize=True)
    harmonics = run.compiled(run.put(layer))(x)
    return harmonics, torch.autograd.grad(harmonics.square().sum() + harmonics.sum(), x)


@case("e3nn")
def tensor_product(run: Run) -> Any:
    from e3nn import o3

    layer = run.put(o3.FullyConnectedTensorProduct("2x0e + 1x1o", "1x0e + 1x1o", "2x0e + 1x1o"))
    a, b = run.put([torch.randn(3, 5), torch.randn(3, 4)])
    output = run.compiled(layer)(a, b)
    output.square().sum().backward()
    return output, _gradients(layer)


@case("gpytorch")
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
    likelihood_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    loss = -run.compiled(lambda x, y: likelihood_of(model(x), y))(x, y)
    loss.backward()
    gradients = _gradients(model)
    model.eval()
    with torch.no_grad():
        prediction = model(run.put(torch.tensor([0.25, 0.6])))
    return loss, gradients, prediction.mean, prediction.variance


@case("gpytorch")
def kernels(run: Run) -> Any:
    from gpytorch import kernels

    x = run.put(torch.randn(5, 2))
    kinds = (kernels.MaternKernel, kernels.RQKernel, kernels.LinearKernel, kernels.PeriodicKernel)
    layers = [run.put(kind()) for kind in kinds]
    return run.compiled(lambda x: [layer(x).to_dense() for layer in layers])(x)


@case("linear_operator")
def operators(run: Run) -> Any:
    from linear_operator.operators import DenseLinearOperator, DiagLinearOperator

    x, diagonal, right = run.put([torch.randn(5, 5), torch.ones(5) * 3, torch.randn(5, 2)])

    def apply(x: torch.Tensor, right: torch.Tensor) -> list[torch.Tensor]:
        matrix = DenseLinearOperator(x @ x.T) + DiagLinearOperator(diagonal)
        return [
            matrix.to_dense(), matrix.solve(right), matrix.logdet(), matrix.cholesky().to_dense()
        ]  # fmt: skip

    return run.compiled(apply)(x, right)


@case("botorch")
def acquisition(run: Run) -> Any:
    from botorch.acquisition import LogExpectedImprovement
    from botorch.models import SingleTaskGP

    x = torch.rand(6, 2, dtype=torch.float64)
    x, y = run.put([x, (x * x).sum(1, keepdim=True)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SingleTaskGP(x, y).to(run.device)
    at = run.put(torch.full((1, 1, 2), 0.4, dtype=torch.float64)).requires_grad_()
    value = run.compiled(LogExpectedImprovement(model, best_f=y.max()))(at)
    return value, torch.autograd.grad(value.sum(), at)


@case("botorch")
def pareto(run: Run) -> Any:
    from botorch.utils.multi_objective.pareto import is_non_dominated
    from botorch.utils.transforms import normalize, standardize

    y = run.put(torch.rand(8, 2, dtype=torch.float64))
    bounds = run.put(torch.tensor([[0.0, 0.0], [2.0, 2.0]], dtype=torch.float64))
    return run.compiled(lambda y: (is_non_dominated(y), standardize(y), normalize(y, bounds)))(y)


@case("opacus")
def per_sample_gradients(run: Run) -> Any:
    from opacus import GradSampleModule

    model = GradSampleModule(run.put(_mlp()))
    run.compiled(model)(run.put(torch.randn(3, 4))).square().sum().backward()
    return {name: parameter.grad_sample for name, parameter in model.named_parameters()}


@case("opacus")
def private_layers(run: Run) -> Any:
    from opacus import GradSampleModule
    from opacus.layers import DPLSTM

    model = GradSampleModule(run.put(DPLSTM(3, 4, batch_first=True)))
    run.compiled(model)(run.put(torch.randn(2, 5, 3)))[0].sum().backward()
    return {name: parameter.grad_sample for name, parameter in model.named_parameters()}


def _captum(run: Run, kind: str, **options: Any) -> Any:
    from captum import attr

    model = run.compiled(run.put(_mlp()).eval())
    x = run.put(torch.randn(3, 4))
    return getattr(attr, kind)(model).attribute(x, target=1, **options)


@case("captum")
def integrated_gradients(run: Run) -> Any:
    return _captum(run, "IntegratedGradients", n_steps=5)


@case("captum")
def saliency(run: Run) -> Any:
    return [_captum(run, kind) for kind in ("Saliency", "InputXGradient", "Deconvolution")]


@case("captum")
def occlusion(run: Run) -> Any:
    return _captum(run, "Occlusion", sliding_window_shapes=(2,))


# Not compiled: Dynamo finds no graph in these functions.
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


@case("torchdiffeq")
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
    field = run.compiled(Field())
    fixed = odeint(field, start, times, method="rk4")
    adaptive = odeint_adjoint(field, start, times, method="dopri5", rtol=1e-3, atol=1e-3)
    adaptive.sum().backward()
    return fixed, adaptive, _gradients(model)


@case("torchsde")
def sde(run: Run) -> Any:
    import torchsde

    class Motion(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def f(self, t: Any, y: torch.Tensor) -> torch.Tensor:
            return -y

        def g(self, t: Any, y: torch.Tensor) -> torch.Tensor:
            return torch.zeros_like(y)

    start, times = run.put([torch.ones(3, 2), torch.linspace(0, 1, 3)])
    motion = run.put(Motion())
    motion.f, motion.g = run.compiled(motion.f), run.compiled(motion.g)
    return torchsde.sdeint(motion, start, times, dt=0.25, method="euler")


@case("torchcde")
def cde(run: Run) -> Any:
    import torchcde

    x = run.put(torch.randn(2, 5, 3))
    point = run.put(torch.tensor(1.3))

    def apply(x: torch.Tensor, point: torch.Tensor) -> Any:
        coefficients = torchcde.hermite_cubic_coefficients_with_backward_differences(x)
        spline = torchcde.CubicSpline(coefficients)
        return spline.evaluate(point), spline.derivative(point), torchcde.natural_cubic_coeffs(x)

    return run.compiled(apply)(x, point)


@case("torchquad")
def quadrature(run: Run) -> Any:
    from torchquad import Simpson, Trapezoid

    domain = run.put(torch.tensor([[0.0, 1.0], [0.0, 2.0]]))
    # Not the integrators: Dynamo cannot trace autoray, through which they call torch.
    function = run.compiled(lambda x: torch.sin(x[:, 0]) * x[:, 1])
    with contextlib.redirect_stdout(io.StringIO()):
        return [
            kind().integrate(function, 2, 49, domain, backend="torch")
            for kind in (Trapezoid, Simpson)
        ]


@case("zuko")
def flow(run: Run) -> Any:
    import zuko

    flow = run.put(zuko.flows.NSF(features=3, context=0, transforms=1, hidden_features=(8,)))
    likelihood: Any = run.compiled(lambda x: flow().log_prob(x))
    loss = -likelihood(run.put(torch.randn(4, 3))).mean()
    loss.backward()
    return loss, _gradients(flow)


@case("zuko")
def masked_flow(run: Run) -> Any:
    import zuko

    flow = run.put(zuko.flows.MAF(features=3, context=2, transforms=2, hidden_features=(8,)))
    likelihood: Any = run.compiled(lambda context, x: flow(context).log_prob(x))
    loss = -likelihood(*run.put([torch.randn(4, 2), torch.randn(4, 3)])).mean()
    loss.backward()
    return loss, _gradients(flow)


@case("geoopt")
def hyperbolic(run: Run) -> Any:
    import geoopt

    ball = run.put(geoopt.PoincareBall())
    a, b = run.put([torch.rand(3, 2) * 0.3, torch.rand(3, 2) * 0.3])
    functions = (ball.dist, ball.expmap, ball.logmap, ball.mobius_add)
    return run.compiled(lambda a, b: [function(a, b) for function in functions])(a, b)


# Not compiled: Dynamo treats `point` as an ordinary parameter, on any device.
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
    # laplace creates an identity matrix on the default device, so its default backend computes a
    # full Hessian on no other device, such as CUDA.
    with run.device:
        posterior.fit(torch.utils.data.DataLoader(data, batch_size=4))
    return posterior.H, posterior.log_marginal_likelihood()


@case("curvlinops_for_pytorch")
def curvature(run: Run) -> Any:
    from curvlinops import GGNLinearOperator, HessianLinearOperator

    model = run.put(_mlp())
    data = [tuple(run.put([torch.randn(5, 4), torch.randn(5, 2)]))]
    parameters = list(model.parameters())
    products = []
    for kind in (HessianLinearOperator, GGNLinearOperator):
        operator = kind(model, torch.nn.MSELoss(), parameters, data, check_deterministic=False)
        multiply = run.compiled(operator.__matmul__)
        products.append(multiply(run.put(torch.ones(operator.shape[1]))))
    return products


@case("backpack_for_pytorch")
def second_order(run: Run) -> Any:
    from backpack import backpack, extend
    from backpack.extensions import BatchGrad, DiagGGNExact, Variance

    model = extend(run.put(_mlp()))
    forward = run.compiled(model)
    loss = extend(torch.nn.CrossEntropyLoss())
    inputs, target = run.put([torch.randn(4, 4), torch.randint(0, 2, (4,))])
    with backpack(BatchGrad(), DiagGGNExact(), Variance()):
        loss(forward(inputs), target).backward()
    return [[p.grad_batch, p.diag_ggn_exact, p.variance] for p in model.parameters()]


@case("torchjd")
def aggregated_gradients(run: Run) -> Any:
    from torchjd.aggregation import MGDA, Mean
    from torchjd.autojac import backward

    model = run.put(_mlp())
    output = model(run.put(torch.randn(5, 4)))
    matrix = run.put(torch.randn(3, 6))
    backward([output[:, 0].mean(), output[:, 1].square().mean()])
    return [run.compiled(kind())(matrix) for kind in (Mean, MGDA)]


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


@case("torch_pruning", modes=(STRICT, COMPILE))
def pruned(run: Run) -> Any:
    import torch_pruning as tp

    model = run.put(_mlp())
    example = run.put(torch.randn(2, 4))
    pruner = tp.pruner.MagnitudePruner(
        model, example, importance=tp.importance.MagnitudeImportance(p=2), pruning_ratio=0.5,
        ignored_layers=[model[2]],
    )  # fmt: skip
    pruner.step()
    return run.compiled(model)(example), dict(model.named_parameters())


@case("neuraloperator")
def fourier_operator(run: Run) -> Any:
    from neuralop.models import FNO

    # Not with run.train: the library's state_dict contains functions, which torch.load rejects.
    model = FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=4, n_layers=1)
    model = run.put(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    output = run.compiled(model)(run.put(torch.randn(1, 1, 8, 8)))
    output.square().mean().backward()
    optimizer.step()
    return output, _gradients(model), dict(model.named_parameters())


# Not compiled: Dynamo recurses without end in the library's subclass of Tensor, on any device.
@case("pypose", modes=EAGER)
def poses(run: Run) -> Any:
    import pypose

    def apply(twists: torch.Tensor, points: torch.Tensor) -> Any:
        rotations = pypose.so3(twists).Exp()
        moved = rotations.Act(points)
        return moved, rotations.Inv().tensor(), rotations.Log().tensor(), rotations.matrix()

    return run.compiled(apply)(*run.put([torch.randn(3, 3) * 0.4, torch.randn(3, 3)]))
