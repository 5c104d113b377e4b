# SPDX-License-Identifier: Apache-2.0
"""Test cases for Gaussian processes, probabilistic programs, flows and differential equations."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import torch

from tests.ecosystem.case import EAGER, Run, case


def _gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def _mlp() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))


@case("gpytorch")
def composed_kernels(run: Run) -> Any:
    from gpytorch import kernels

    x = run.put(torch.randn(5, 2))
    kinds = [
        kernels.ScaleKernel(kernels.RBFKernel(ard_num_dims=2)) + kernels.PolynomialKernel(2),
        kernels.CosineKernel() * kernels.ConstantKernel(),
        kernels.SpectralMixtureKernel(num_mixtures=2, ard_num_dims=2),
        kernels.PiecewisePolynomialKernel(q=2),
        kernels.ArcKernel(kernels.RBFKernel(), ard_num_dims=2),
    ]  # fmt: skip
    layers = run.put(kinds)
    return run.compiled(lambda x: [layer(x).to_dense() for layer in layers])(x)


@case("gpytorch")
def variational_gp(run: Run) -> Any:
    import gpytorch
    from gpytorch import variational

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, points: torch.Tensor) -> None:
            distribution = variational.CholeskyVariationalDistribution(len(points))
            super().__init__(variational.VariationalStrategy(self, points, distribution))
            self.mean = gpytorch.means.LinearMean(1)
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=1.5))

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    x, labels = run.put([torch.linspace(0, 1, 8)[:, None], torch.randint(0, 2, (8,)).float()])
    model = run.put(Model(torch.linspace(0, 1, 4)[:, None]))
    # The first call initializes the variational mean with random numbers.
    model.variational_strategy.variational_params_initialized.fill_(1)
    likelihood = run.put(gpytorch.likelihoods.BernoulliLikelihood())
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=8)
    loss = -run.compiled(lambda x: bound(model(x), labels))(x)
    loss.backward()
    return loss, _gradients(model), likelihood(model.eval()(x)).mean


@case("gpytorch")
def multitask_gp(run: Run) -> Any:
    import gpytorch

    x, y = run.put([torch.linspace(0, 1, 6), torch.randn(6, 2)])

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.MultitaskMean(gpytorch.means.ConstantMean(), num_tasks=2)
            self.kernel = gpytorch.kernels.MultitaskKernel(
                gpytorch.kernels.RBFKernel(), num_tasks=2, rank=1
            )

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultitaskMultivariateNormal(self.mean(x), self.kernel(x))

    likelihood = run.put(gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=2))
    model = run.put(Model(likelihood))
    likelihood_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    loss = -run.compiled(lambda x, y: likelihood_of(model(x), y))(x, y)
    loss.backward()
    return loss, _gradients(model)


@case("gpytorch")
def noise_and_priors(run: Run) -> Any:
    import gpytorch

    values = run.put(torch.rand(4) + 0.5)
    priors = [
        gpytorch.priors.GammaPrior(3.0, 6.0), gpytorch.priors.NormalPrior(0.0, 1.0),
        gpytorch.priors.HalfCauchyPrior(0.5), gpytorch.priors.SmoothedBoxPrior(0.1, 1.0, 0.1),
    ]  # fmt: skip
    likelihood = run.put(gpytorch.likelihoods.StudentTLikelihood())
    prior = gpytorch.distributions.MultivariateNormal(values, torch.diag(values))
    priors = run.put(priors)

    def apply(values: torch.Tensor) -> Any:
        expected = likelihood.expected_log_prob(values * 2, prior)
        return [kind.log_prob(values) for kind in priors], expected

    return run.compiled(apply)(values)


@case("linear_operator")
def structured_operators(run: Run) -> Any:
    from linear_operator import operators

    a, b = run.put([torch.randn(3, 3), torch.randn(2, 2)])
    a, b = a @ a.T + torch.eye(3, device=a.device), b @ b.T + torch.eye(2, device=b.device)
    column, right = run.put([torch.tensor([4.0, 1.0, 0.5]), torch.randn(6, 2)])

    def apply(a: torch.Tensor, b: torch.Tensor, column: torch.Tensor) -> list[torch.Tensor]:
        product = operators.KroneckerProductLinearOperator(
            operators.DenseLinearOperator(a), operators.DenseLinearOperator(b)
        )
        toeplitz = operators.ToeplitzLinearOperator(column)
        both = operators.DenseLinearOperator(torch.stack([a, a]))
        return [
            product.to_dense(), product @ right, product.logdet(), toeplitz.to_dense(),
            toeplitz @ right[:3], operators.BlockDiagLinearOperator(both) @ right,
            operators.RootLinearOperator(a).to_dense(),
            operators.LowRankRootLinearOperator(a[:, :1]).add_diagonal(a[0, 0]).to_dense(),
        ]  # fmt: skip

    return run.compiled(apply)(a, b, column)


@case("linear_operator")
def matrix_functions(run: Run) -> Any:
    import linear_operator
    from linear_operator.operators import DenseLinearOperator

    root = run.put(torch.randn(5, 5))
    matrix = (root @ root.T + 5 * torch.eye(5, device=root.device)).requires_grad_()
    right = run.put(torch.randn(5))

    def apply(matrix: torch.Tensor, right: torch.Tensor) -> Any:
        quadratic, logarithm = linear_operator.inv_quad_logdet(
            DenseLinearOperator(matrix), right[:, None], logdet=True
        )
        values, _ = torch.linalg.eigh(DenseLinearOperator(matrix).to_dense())
        return quadratic, logarithm, values, linear_operator.diagonalization(matrix)[0]

    results = run.compiled(apply)(matrix, right)
    return results, torch.autograd.grad(results[0] + results[1], matrix)


@case("botorch")
def multi_objective(run: Run) -> Any:
    from botorch.utils.multi_objective.box_decompositions import NondominatedPartitioning
    from botorch.utils.multi_objective.hypervolume import Hypervolume

    points = run.put(torch.rand(6, 2, dtype=torch.float64))
    reference = run.put(torch.zeros(2, dtype=torch.float64))
    boxes = NondominatedPartitioning(reference, points)
    return (
        run.compiled(boxes.compute_hypervolume)(),
        boxes.get_hypercell_bounds(),
        Hypervolume(reference).compute(boxes.pareto_Y),
    )


@case("botorch")
def sampled_acquisition(run: Run) -> Any:
    from botorch.acquisition import qLogExpectedImprovement, qUpperConfidenceBound
    from botorch.models import SingleTaskGP
    from botorch.sampling import IIDNormalSampler

    x = torch.rand(6, 2, dtype=torch.float64)
    x, y = run.put([x, (x * x).sum(1, keepdim=True)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SingleTaskGP(x, y).to(run.device)
    sampler = IIDNormalSampler(torch.Size([4]), seed=1)
    sampler.base_samples = run.put(torch.randn(4, 1, 2, dtype=torch.float64))
    points = run.put(torch.rand(1, 2, 2, dtype=torch.float64)).requires_grad_()
    kinds = [
        qLogExpectedImprovement(model, y.max(), sampler),
        qUpperConfidenceBound(model, 0.2, sampler),
    ]
    values = run.compiled(lambda points: [kind(points) for kind in kinds])(points)
    return values, torch.autograd.grad(sum(value.sum() for value in values), points)


@case("botorch")
def synthetic_functions(run: Run) -> Any:
    from botorch.test_functions import Branin, Hartmann
    from botorch.test_functions.multi_objective import DTLZ2

    x = run.put(torch.rand(3, 6))
    kinds = run.put([Branin(), Hartmann(dim=6), DTLZ2(dim=6, num_objectives=2)])
    return run.compiled(lambda x: [kind(x[:, : kind.dim]) for kind in kinds])(x)


@case("pyro_ppl", modes=EAGER)
def variational_inference(run: Run) -> Any:
    import pyro
    import pyro.distributions as dist
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoDelta

    pyro.clear_param_store()
    x = run.put(torch.randn(6, 2))
    y = x.sum(1)
    zeros = run.put(torch.zeros(2))

    def model() -> None:
        weights = pyro.sample("weights", dist.Normal(zeros, 1.0).to_event(1))
        with pyro.plate("data", 6):
            pyro.sample("y", dist.Normal(x @ weights, 0.5), obs=y)

    guide = AutoDelta(model, init_loc_fn=lambda site: zeros + 0.1)
    steps = SVI(model, guide, pyro.optim.Adam({"lr": 0.1}), Trace_ELBO())
    return [steps.step() for _ in range(3)], guide.median()


# Not compiled: Dynamo fails in opt_einsum, on any device.
@case("pyro_ppl", modes=EAGER)
def enumerated_mixture(run: Run) -> Any:
    import pyro
    import pyro.distributions as dist
    from pyro.infer import TraceEnum_ELBO, config_enumerate

    pyro.clear_param_store()
    data, means, weights = run.put([torch.randn(5), torch.tensor([-1.0, 1.0]), torch.ones(2) / 2])

    @config_enumerate
    def model() -> None:
        place = pyro.param("means", means)
        with pyro.plate("data", 5):
            choice = pyro.sample("choice", dist.Categorical(weights))
            pyro.sample("x", dist.Normal(place[choice], 1.0), obs=data)

    loss = TraceEnum_ELBO(max_plate_nesting=1).differentiable_loss(model, lambda: None)
    return loss, torch.autograd.grad(loss, pyro.param("means"))


@case("pyro_ppl")
def transformed_distributions(run: Run) -> Any:
    import pyro.distributions as dist
    from pyro.distributions import transforms

    base = dist.Normal(*run.put([torch.zeros(3), torch.ones(3)])).to_event(1)
    x = run.put(torch.rand(4, 3) * 0.5 + 0.2)
    parts = [
        run.put(transforms.affine_autoregressive(3, hidden_dims=[6])),
        run.put(transforms.planar(3)), run.put(transforms.spline(3, count_bins=4)),
    ]  # fmt: skip
    spline = dist.TransformedDistribution(base, [parts[2]])
    outputs = run.compiled(lambda x: [part(x) for part in parts])(x)
    loss = -run.compiled(spline.log_prob)(x).sum()
    loss.backward()
    return outputs, loss, _gradients(parts[2])


@case("pyro_ppl")
def more_distributions(run: Run) -> Any:
    import pyro.distributions as dist

    rates, counts = run.put([torch.rand(4) + 0.5, torch.tensor([0.0, 1.0, 3.0, 2.0])])
    directions = run.put(torch.nn.functional.normalize(torch.randn(4, 3), dim=1))
    kinds = [
        dist.ZeroInflatedPoisson(rates, gate=run.put(torch.tensor(0.2))),
        dist.NegativeBinomial(rates, logits=rates), dist.BetaBinomial(rates, rates, 5),
        dist.GammaPoisson(rates, rates),
    ]  # fmt: skip
    kinds.append(dist.VonMises(rates, rates))
    shape, matrix = run.put([torch.tensor(2.0), torch.eye(3)])
    matrices, points = dist.LKJCholesky(3, shape), dist.Delta(directions).to_event(1)

    def likelihoods(counts: torch.Tensor) -> list[torch.Tensor]:
        values = [kind.log_prob(counts) for kind in kinds]
        return [*values, matrices.log_prob(matrix), points.log_prob(directions)]

    return run.compiled(likelihoods)(counts)


@case("pyro_ppl")
def pyro_gaussian_process(run: Run) -> Any:
    import pyro
    from pyro.contrib import gp

    pyro.clear_param_store()
    x = run.put(torch.linspace(0, 1, 6))
    kernel = gp.kernels.RBF(1, variance=run.put(torch.tensor(1.0)))
    model = gp.models.GPRegression(x, torch.sin(x * 6), kernel, noise=run.put(torch.tensor(0.1)))
    model = run.put(model)
    points = run.put(torch.tensor([0.25, 0.6]))
    return run.compiled(model)(points, full_cov=True, noiseless=False)


@case("pyro_ppl")
def hidden_markov_model(run: Run) -> Any:
    import pyro.distributions as dist

    start, moves = run.put([torch.randn(3).log_softmax(0), torch.randn(3, 3).log_softmax(1)])
    seen = dist.Normal(run.put(torch.tensor([-1.0, 0.0, 1.0])), 0.5)
    model = dist.DiscreteHMM(start, moves, seen)
    data = run.put(torch.randn(7))
    return run.compiled(lambda data: (model.log_prob(data), model.filter(data).logits))(data)


@case("zuko")
def neural_flows(run: Run) -> Any:
    import zuko

    torch.manual_seed(1)
    flows = [
        zuko.flows.NICE(features=3, transforms=1, hidden_features=(8,)),
        zuko.flows.NAF(features=3, transforms=1, signal=4, hidden_features=(8,)),
        zuko.flows.BPF(features=3, transforms=1, degree=4, hidden_features=(8,)),
    ]
    x = run.put(torch.randn(4, 3) * 0.5)
    coupling, *others = run.put(flows)
    losses = [-run.compiled(lambda x: coupling().log_prob(x))(x).mean()]
    # Not compiled: their forward pass computes a gradient, and compiled functions have no second
    # derivatives, on any device.
    losses += [-flow().log_prob(x).mean() for flow in others]
    sum(losses).backward()
    return losses, [_gradients(flow) for flow in flows]


# Dynamo traces its `vmap` with a write that `vmap` rejects, on any device.
@case("zuko", modes=EAGER)
def continuous_flow(run: Run) -> Any:
    import zuko

    flow = run.put(zuko.flows.CNF(features=2, context=1, hidden_features=(8,)))
    loss = -flow(run.put(torch.randn(4, 1))).log_prob(run.put(torch.randn(4, 2))).mean()
    loss.backward()
    return loss, _gradients(flow)


@case("zuko")
def mixture_and_transforms(run: Run) -> Any:
    import zuko

    mixture = run.put(zuko.mixtures.GMM(features=2, context=1, components=3, hidden_features=(8,)))
    x = run.put(torch.randn(4, 2) * 0.5)
    parts = [zuko.transforms.SoftclipTransform(2.0), zuko.transforms.SinTransform()]

    def apply(x: torch.Tensor, context: torch.Tensor) -> Any:
        both = [
            (part(x), part.inv(part(x)), part.log_abs_det_jacobian(x, part(x))) for part in parts
        ]
        return mixture(context).log_prob(x), both

    return run.compiled(apply)(x, run.put(torch.randn(4, 1)))


@case("torchdiffeq")
def solvers(run: Run) -> Any:
    from torchdiffeq import odeint

    start, times = run.put([torch.randn(3, 2), torch.linspace(0, 1, 4)])
    methods = ("euler", "midpoint", "explicit_adams", "implicit_adams", "bosh3", "adaptive_heun")
    field = run.compiled(lambda t, y: torch.sin(y) * t)
    return [odeint(field, start, times, method=method, rtol=1e-4, atol=1e-4) for method in methods]


@case("torchdiffeq")
def event_time(run: Run) -> Any:
    from torchdiffeq import odeint_event

    # A ball that falls from a height of one meter.
    state = run.put(torch.tensor([1.0, 0.0])).requires_grad_()
    time = run.put(torch.tensor(0.0))

    def fall(t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.stack([y[1], torch.full_like(y[1], -9.81)])

    at, path = odeint_event(
        run.compiled(fall), state, time, event_fn=lambda t, y: y[0], method="dopri5", rtol=1e-5,
        atol=1e-5,
    )  # fmt: skip
    return at, path, torch.autograd.grad(at, state)


@case("torchsde")
def trained_sde(run: Run) -> Any:
    import torchsde

    class Motion(torch.nn.Module):
        noise_type, sde_type = "diagonal", "stratonovich"

        def __init__(self) -> None:
            super().__init__()
            self.drift = torch.nn.Linear(2, 2)

        def f(self, t: Any, y: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.drift(y))

        def g(self, t: Any, y: torch.Tensor) -> torch.Tensor:
            return torch.zeros_like(y)

    model = run.put(Motion())
    model.f, model.g = run.compiled(model.f), run.compiled(model.g)
    start, times = run.put([torch.ones(3, 2), torch.linspace(0, 1, 3)])
    path = torchsde.sdeint_adjoint(model, start, times, dt=0.25, method="midpoint")
    path.square().sum().backward()
    return path, _gradients(model)


@case("torchcde")
def controlled_equation(run: Run) -> Any:
    import torchcde

    class Field(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 12)

        def forward(self, t: Any, z: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.layer(z)).view(*z.shape, 3)

    field = run.put(Field())
    x = run.put(torch.randn(2, 5, 3))
    path = torchcde.LinearInterpolation(torchcde.linear_interpolation_coeffs(x))
    output = torchcde.cdeint(
        X=path, func=run.compiled(field), z0=run.put(torch.zeros(2, 4)), t=path.interval,
        method="rk4",
        options={"step_size": 0.5}, adjoint=False,
    )  # fmt: skip
    output.square().sum().backward()
    return output, _gradients(field)


@case("torchquad", modes=EAGER)
def gaussian_quadrature(run: Run) -> Any:
    from torchquad import Boole, GaussLegendre

    # torchquad creates the nodes of GaussLegendre on the default device, whatever that of the
    # domain. Its set_up_backend sets the default device for CUDA.
    domain = run.put(torch.tensor([[0.0, 1.0], [0.0, 2.0]]))
    with contextlib.redirect_stdout(io.StringIO()), run.device:
        return [
            kind().integrate(lambda x: torch.exp(x[:, 0]) * x[:, 1], 2, 64, domain, backend="torch")
            for kind in (Boole, GaussLegendre)
        ]


@case("captum", modes=EAGER)
def layer_attributions(run: Run) -> Any:
    from captum import attr

    model = run.put(torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(108, 2)
    ))  # fmt: skip
    x = run.put(torch.randn(2, 1, 8, 8))
    return [
        attr.LayerGradCam(model, model[0]).attribute(x, target=1),
        attr.LayerActivation(model, model[0]).attribute(x),
        attr.LayerConductance(model, model[0]).attribute(x, target=1, n_steps=4),
        attr.GuidedGradCam(model, model[0]).attribute(x, target=1),
        attr.NeuronGradient(model, model[0]).attribute(x, (0, 1, 1)),
    ]  # fmt: skip


@case("captum", modes=EAGER)
def deep_lift(run: Run) -> Any:
    from captum import attr

    model = run.put(_mlp())
    x, baseline = run.put([torch.randn(3, 4), torch.zeros(1, 4)])
    lift = attr.DeepLift(model).attribute(x, baseline, target=1, return_convergence_delta=True)
    layers = attr.LRP(torch.nn.Sequential(model[0], torch.nn.ReLU(), model[2]))
    return lift, layers.attribute(x, target=0)


@case("captum")
def perturbed_features(run: Run) -> Any:
    from captum import attr

    model = run.compiled(run.put(_mlp()))
    x = run.put(torch.randn(3, 4))
    mask = run.put(torch.tensor([[0, 0, 1, 2]]))
    return [
        attr.FeatureAblation(model).attribute(x, target=1, feature_mask=mask),
        attr.ShapleyValues(model).attribute(x, target=1, feature_mask=mask),
        attr.FeaturePermutation(
            model, perm_func=lambda f, m: torch.where(m, f.flip(0), f)
        ).attribute(x, target=1),
    ]


@case("captum")
def explanation_metrics(run: Run) -> Any:
    from captum.attr import Saliency
    from captum.metrics import infidelity, sensitivity_max

    model = run.compiled(run.put(_mlp()))
    x = run.put(torch.randn(3, 4))
    saliency = Saliency(model)
    attributions = saliency.attribute(x, target=1, abs=False)

    def shift(inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.full_like(inputs, 0.1), inputs - 0.1

    return [
        infidelity(model, shift, x, attributions, target=1),
        sensitivity_max(
            saliency.attribute, x, perturb_func=lambda inputs, radius: inputs + radius, target=1
        ),
    ]


@case("captum")
def adversarial_examples(run: Run) -> Any:
    from captum.robust import FGSM, PGD

    model = run.compiled(run.put(torch.nn.Linear(4, 2)))
    x, labels = run.put([torch.randn(3, 4), torch.tensor([0, 1, 1])])
    attack = PGD(model, lower_bound=-2, upper_bound=2)
    return FGSM(model).perturb(x, 0.1, labels), attack.perturb(
        x, radius=0.2, step_size=0.1, step_num=2, target=labels
    )
