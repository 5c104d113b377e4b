# SPDX-License-Identifier: Apache-2.0
"""Test cases for training loops, files, tables, reinforcement learning and data loading."""

from __future__ import annotations

import contextlib
import io
import tempfile
from typing import Any

import torch

from tests.ecosystem.case import EAGER, STRICT, Run, case


def _mlp(*sizes: int) -> torch.nn.Sequential:
    first, hidden, last = sizes
    return torch.nn.Sequential(
        torch.nn.Linear(first, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, last)
    )


def _data() -> torch.utils.data.TensorDataset:
    inputs = torch.randn(8, 4)
    return torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))


def _batches() -> Any:
    return torch.utils.data.DataLoader(_data(), batch_size=4)


def _accelerator_name(run: Run) -> str:
    return "cpu" if run.device.type == "cpu" else "auto"


@case("lightning")
def validated(run: Run) -> Any:
    import lightning
    import torchmetrics
    from lightning.pytorch.callbacks import EarlyStopping

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = _mlp(4, 8, 1)
            self.error = torchmetrics.MeanSquaredError()

        def training_step(self, batch: Any) -> torch.Tensor:
            return torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])

        def validation_step(self, batch: Any) -> None:
            self.error(self.model(batch[0]), batch[1])
            self.log("error", self.error)

        def predict_step(self, batch: Any) -> torch.Tensor:
            output: torch.Tensor = self.model(batch[0])
            return output

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), 0.1)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

    module, batches = Module(), _batches()
    trainer = lightning.Trainer(
        accelerator=_accelerator_name(run), devices=1, max_epochs=2, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[EarlyStopping("error")], gradient_clip_val=0.5, accumulate_grad_batches=2,
    )  # fmt: skip
    compiled = run.compiled(module)
    trainer.fit(compiled, batches, batches)
    return dict(trainer.callback_metrics), trainer.predict(compiled, batches)


@case("lightning", modes=EAGER)
def manual_optimization(run: Run) -> Any:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)

        def training_step(self, batch: Any) -> None:
            for optimizer in self.optimizers():
                optimizer.zero_grad()
                output = self.second(self.first(batch[0]))
                self.manual_backward(torch.nn.functional.mse_loss(output, batch[1]))
                optimizer.step()

        def configure_optimizers(self) -> Any:
            parts = (self.first, self.second)
            return [torch.optim.SGD(part.parameters(), 0.05) for part in parts]

    module = Module()
    lightning.Trainer(
        accelerator=_accelerator_name(run), devices=1, max_epochs=1, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    ).fit(module, _batches())  # fmt: skip
    return dict(module.named_parameters())


@case("lightning")
def bfloat16_fabric(run: Run) -> Any:
    import lightning

    fabric = lightning.Fabric(accelerator=_accelerator_name(run), devices=1, precision="bf16-true")
    model: Any = run.compiled(torch.nn.Linear(4, 1))
    optimizer: Any = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer = fabric.setup(model, optimizer)
    state = {"model": model, "optimizer": optimizer}
    with tempfile.TemporaryDirectory() as directory:
        fabric.save(f"{directory}/state.ckpt", state)
        fabric.load(f"{directory}/state.ckpt", state)
    output = model(fabric.to_device(torch.ones(2, 4)))
    return output.dtype == torch.float32, [p.dtype == torch.bfloat16 for p in model.parameters()]


@case("accelerate", modes=EAGER)
def accumulated_gradients(run: Run) -> Any:
    import accelerate
    from accelerate.state import AcceleratorState, GradientState, PartialState

    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    accelerator = accelerate.Accelerator(
        cpu=run.device.type == "cpu", gradient_accumulation_steps=2
    )
    model: Any = _mlp(4, 8, 1)
    optimizer: Any = torch.optim.SGD(model.parameters(), 0.1)
    schedule: Any = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    model, optimizer, loader, schedule = accelerator.prepare(
        model, optimizer, torch.utils.data.DataLoader(_data(), batch_size=2), schedule
    )
    for batch, target in loader:
        with accelerator.accumulate(model):
            accelerator.backward(torch.nn.functional.mse_loss(model(batch), target))
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    return dict(model.named_parameters()), accelerator.gather(model[0].bias.detach())


@case("accelerate")
def saved_state(run: Run) -> Any:
    import accelerate
    from accelerate.state import AcceleratorState, GradientState, PartialState

    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    accelerator = accelerate.Accelerator(cpu=run.device.type == "cpu")
    network = _mlp(4, 8, 1)
    model: Any = run.compiled(network)
    optimizer: Any = torch.optim.Adam(model.parameters(), 0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    inputs = torch.randn(3, 4).to(accelerator.device)
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(2):
            optimizer.zero_grad()
            accelerator.backward(model(inputs).square().mean())
            optimizer.step()
            accelerator.save_state(directory)
        with torch.no_grad():
            network[0].weight.zero_()
        accelerator.load_state(directory)
    return list(model.parameters()), accelerator.unwrap_model(model)(inputs)


@case("accelerate", modes=EAGER)
def offloaded_to_disk(run: Run) -> Any:
    import accelerate

    model = _mlp(4, 8, 2)
    with tempfile.TemporaryDirectory() as directory:
        accelerate.disk_offload(model, directory, execution_device=run.device)
        with torch.no_grad():
            return model(run.put(torch.ones(3, 4)))


@case("skorch")
def classifier(run: Run) -> Any:
    import numpy
    import skorch

    inputs = torch.randn(8, 4).numpy()
    labels = (inputs.sum(1) > 0).astype(numpy.int64)
    net = skorch.NeuralNetClassifier(
        run.compiled(_mlp(4, 8, 2)), criterion=torch.nn.CrossEntropyLoss, max_epochs=2, lr=0.1,
        device=str(run.device), train_split=None, iterator_train__shuffle=False, verbose=0,
        callbacks=[skorch.callbacks.GradientNormClipping(0.5)],
    )  # fmt: skip
    net.fit(inputs, labels)
    with tempfile.TemporaryDirectory() as directory:
        net.save_params(f_params=f"{directory}/net.pt")
        net.load_params(f_params=f"{directory}/net.pt")
    return torch.from_numpy(net.predict_proba(inputs)), net.score(inputs, labels)


@case("fastai")
def one_cycle(run: Run) -> Any:
    from fastai.callback import progress, schedule  # noqa: F401 - they add methods
    from fastai.data.core import DataLoaders
    from fastai.data.load import DataLoader
    from fastai.learner import Learner
    from fastai.metrics import mse

    loaders = DataLoaders(
        *(DataLoader(_data(), bs=4, num_workers=0) for _ in range(2)), device=run.device
    )
    model = run.compiled(run.put(_mlp(4, 8, 1)))
    learn = Learner(loaders, model, loss_func=torch.nn.MSELoss(), metrics=[mse], lr=0.1)
    with contextlib.redirect_stdout(io.StringIO()), learn.no_bar(), learn.no_logging():
        learn.fit_one_cycle(2)
        predictions, _ = learn.get_preds()
    return list(learn.model.parameters()), predictions


@case("fastai")
def fastai_layers(run: Run) -> Any:
    from fastai.layers import ConvLayer, PixelShuffle_ICNR, SelfAttention

    model = torch.nn.Sequential(ConvLayer(3, 8), SelfAttention(8), PixelShuffle_ICNR(8, 4, scale=2))
    return run.train(model, [torch.randn(2, 3, 6, 6)], steps=1)


@case("safetensors", modes=EAGER)
def bytes_and_metadata(run: Run) -> Any:
    import safetensors
    import safetensors.torch

    tensors = run.put(
        {"a": torch.randn(3, 2), "half": torch.randn(2).half(), "b": torch.eye(2) > 0}
    )
    loaded = safetensors.torch.load(safetensors.torch.save(tensors))
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/x.safetensors"
        safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
        with safetensors.safe_open(path, "pt", device=str(run.device)) as file:
            assert file.metadata() == {"format": "pt"}
            return loaded, {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118


@case("einops")
def packed(run: Run) -> Any:
    import einops

    a, b = run.put([torch.randn(2, 3, 4), torch.randn(2, 4)])

    def apply(a: torch.Tensor, b: torch.Tensor) -> Any:
        both, shapes = einops.pack([a, b], "b * c")
        return both, einops.unpack(both * 2, shapes, "b * c")

    return run.compiled(apply)(a, b)


@case("entmax")
def entmax_losses(run: Run) -> Any:
    from entmax import Entmax15Loss, SparsemaxLoss, entmax_bisect

    x, labels = run.put([torch.randn(3, 6), torch.randint(0, 6, (3,))])
    x.requires_grad_()
    # Dynamo cannot trace the losses, on any device: their autograd functions call `super()`.
    values = [SparsemaxLoss()(x, labels), Entmax15Loss()(x, labels)]
    values.append(run.compiled(entmax_bisect)(x, alpha=1.3)[:, 0].sum())
    return values, torch.autograd.grad(sum(values), x)


@case("pytorch_crf")
def masked_crf(run: Run) -> Any:
    from torchcrf import CRF

    layer = run.put(CRF(3))
    scores, tags = run.put([torch.randn(5, 2, 3), torch.randint(0, 3, (5, 2))])
    mask = run.put(torch.tensor([[1, 1], [1, 1], [1, 1], [1, 0], [1, 0]]).bool())
    likelihood = run.compiled(layer)(scores, tags, mask=mask, reduction="token_mean")
    likelihood.backward()
    return (
        likelihood,
        layer.transitions.grad,
        layer.start_transitions.grad,
        layer.decode(scores, mask),
    )


@case("pytorch_tabnet")
def pretrained_tabnet(run: Run) -> Any:
    from pytorch_tabnet.metrics import UnsupervisedLoss
    from pytorch_tabnet.sparsemax import Entmax15, Sparsemax
    from pytorch_tabnet.tab_network import TabNetDecoder

    x, other = run.put([torch.randn(4, 6), torch.randn(4, 6)])
    mask = run.put((torch.rand(4, 6) > 0.5).float())
    decoder = run.put(TabNetDecoder(6, n_d=4, n_steps=2, momentum=0.1))
    steps = run.put([torch.randn(4, 4), torch.randn(4, 4)])
    layers = (Sparsemax(dim=-1), Entmax15(dim=-1))

    def apply(x: torch.Tensor, steps: list[torch.Tensor]) -> list[torch.Tensor]:
        return [
            UnsupervisedLoss(x, other, mask), *(layer(x) for layer in layers), decoder(steps)
        ]  # fmt: skip

    return run.compiled(apply)(x, steps)


@case("rtdl_num_embeddings")
def piecewise_linear(run: Run) -> Any:
    from rtdl_num_embeddings import PiecewiseLinearEmbeddings, compute_bins

    x = torch.randn(20, 3)
    layer = PiecewiseLinearEmbeddings(compute_bins(x, n_bins=4), 4, activation=True, version="B")
    return run.train(layer, [x[:5]], steps=1)


@case("tabm")
def embedded_ensemble(run: Run) -> Any:
    from rtdl_num_embeddings import PeriodicEmbeddings
    from tabm import TabM

    model = TabM.make(
        n_num_features=4, cat_cardinalities=[3, 2], d_out=2, k=3, n_blocks=1, d_block=8,
        num_embeddings=PeriodicEmbeddings(4, 6, lite=True), arch_type="tabm-mini",
    )  # fmt: skip
    categories = torch.stack([torch.randint(0, n, (5,)) for n in (3, 2)], 1)
    return run.train(model, [torch.randn(5, 4), categories], steps=1)


@case("tensordict", modes=EAGER)
def memory_mapped(run: Run) -> Any:
    from tensordict import TensorDict

    data = TensorDict({"a": torch.randn(4, 3), "b": {"c": torch.arange(4)}}, batch_size=[4])
    with tempfile.TemporaryDirectory() as directory:
        data.memmap(directory)
        return TensorDict.load_memmap(directory).to(run.device).to_dict()


@case("tensordict")
def functional_parameters(run: Run) -> Any:
    from tensordict import TensorDict

    model = run.put(_mlp(3, 4, 1))
    models = [run.put(_mlp(3, 4, 1)) for _ in range(2)]
    stacked = torch.stack([TensorDict.from_module(one) for one in models], 0)
    x = run.put(torch.randn(5, 3))

    def call(parameters: Any) -> torch.Tensor:
        with parameters.to_module(model):
            output: torch.Tensor = model(x)
            return output

    return run.compiled(torch.vmap(call))(stacked)


@case("tensordict")
def padded_sequences(run: Run) -> Any:
    from tensordict import TensorDict, pad_sequence

    rows = [TensorDict({"x": torch.randn(n, 2)}, batch_size=[n]) for n in (2, 3)]
    padded = pad_sequence([row.to(run.device) for row in rows])
    applied = run.compiled(lambda data: data.apply(torch.exp).flatten_keys("."))(padded)
    return padded.to_dict(), applied.to_dict()


@case("torchrl")
def policy_gradient_loss(run: Run) -> Any:
    from tensordict import TensorDict
    from tensordict.nn import NormalParamExtractor, TensorDictModule
    from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
    from torchrl.objectives import ClipPPOLoss

    network = torch.nn.Sequential(
        MLP(in_features=3, out_features=4, num_cells=[8]), NormalParamExtractor()
    )
    actor = ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True,
    )  # fmt: skip
    critic = ValueOperator(MLP(in_features=3, out_features=1, num_cells=[8]))
    loss = run.put(ClipPPOLoss(actor, critic, entropy_bonus=False))
    data = TensorDict({
        "observation": torch.randn(5, 3), "action": torch.rand(5, 2) * 0.5,
        "action_log_prob": torch.zeros(5), "sample_log_prob": torch.zeros(5),
        "advantage": torch.randn(5, 1), "value_target": torch.randn(5, 1),
    }, batch_size=[5]).to(run.device)  # fmt: skip
    values = run.compiled(loss)(data)
    (values["loss_objective"] + values["loss_critic"].sum()).backward()
    return (
        values["loss_objective"],
        values["loss_critic"],
        [p.grad for p in loss.parameters() if p.grad is not None],
    )


@case("torchrl")
def q_learning_loss(run: Run) -> Any:
    from tensordict import TensorDict
    from torchrl.modules import MLP, QValueActor
    from torchrl.objectives import DQNLoss, SoftUpdate

    network = QValueActor(
        MLP(in_features=3, out_features=2, num_cells=[8]), in_keys=["observation"],
        action_space="categorical",
    )  # fmt: skip
    loss = run.put(DQNLoss(network, action_space="categorical", delay_value=True))
    target = SoftUpdate(loss, eps=0.9)
    after = {
        "observation": torch.randn(5, 3), "reward": torch.randn(5, 1),
        "done": torch.zeros(5, 1).bool(), "terminated": torch.zeros(5, 1).bool(),
    }  # fmt: skip
    data = TensorDict(
        {"observation": torch.randn(5, 3), "action": torch.randint(0, 2, (5,)), "next": after},
        batch_size=[5],
    ).to(run.device)
    value = run.compiled(loss)(data)["loss"]
    value.backward()
    gradients = [p.grad for p in loss.parameters() if p.grad is not None]
    target.step()
    return value, gradients


@case("torchrl")
def environment_transforms(run: Run) -> Any:
    from tensordict import TensorDict
    from torchrl.envs import transforms

    steps = transforms.Compose(
        transforms.ObservationNorm(
            loc=0.5, scale=2.0, in_keys=["observation"], standard_normal=True
        ),
        transforms.RewardScaling(0.1, 2.0), transforms.DoubleToFloat(),
        transforms.UnsqueezeTransform(-1, in_keys=["observation"]),
    )  # fmt: skip
    data = TensorDict(
        {"observation": torch.randn(5, 3), "reward": torch.randn(5, 1).double()}, batch_size=[5]
    )
    return run.compiled(run.put(steps))(data.to(run.device)).to_dict()


@case("stable_baselines3")
def q_network(run: Run) -> Any:
    import numpy
    from gymnasium import spaces
    from stable_baselines3.common.torch_layers import NatureCNN
    from stable_baselines3.dqn.policies import DQNPolicy

    model = DQNPolicy(
        spaces.Box(-1, 1, (3,), numpy.float32), spaces.Discrete(2), lambda _: 0.1, net_arch=[8]
    )
    model = run.put(model)
    images = run.put(NatureCNN(spaces.Box(0, 255, (1, 36, 36), numpy.uint8), 8))
    observations = run.put(torch.randn(5, 3))
    return (
        run.compiled(model.q_net)(observations),
        run.compiled(model._predict)(observations),
        run.compiled(images)(run.put(torch.rand(2, 1, 36, 36))),
    )


@case("stable_baselines3")
def action_distributions(run: Run) -> Any:
    from stable_baselines3.common import distributions

    mean, spread = run.put([torch.randn(4, 3), torch.zeros(3)])
    actions = run.put(torch.rand(4, 3) * 0.8)

    def apply(mean: torch.Tensor, spread: torch.Tensor, actions: torch.Tensor) -> Any:
        kinds = [
            distributions.DiagGaussianDistribution(3).proba_distribution(mean, spread),
            distributions.SquashedDiagGaussianDistribution(3).proba_distribution(mean, spread),
        ]
        categories = distributions.MultiCategoricalDistribution([2, 1]).proba_distribution(mean)
        return [
            *(kind.log_prob(actions) for kind in kinds), categories.mode(), categories.entropy(),
            distributions.kl_divergence(kinds[0], kinds[0]),
        ]  # fmt: skip

    return run.compiled(apply)(mean, spread, actions)


@case("torchdata", modes=EAGER)
def node_pipeline(run: Run) -> Any:
    from torchdata import nodes

    sources = {name: nodes.IterableWrapper(range(4)) for name in "ab"}
    mixed = nodes.MultiNodeWeightedSampler(sources, {"a": 0.5, "b": 0.5}, seed=1)
    batches = nodes.Prefetcher(nodes.Batcher(mixed, batch_size=4), prefetch_factor=2)
    loader = nodes.Loader(batches)
    return [run.put(torch.tensor(sorted(batch))).float().mean() for batch in loader]


@case("webdataset", modes=EAGER)
def mapped_samples(run: Run) -> Any:
    import webdataset

    with tempfile.TemporaryDirectory() as directory:
        with webdataset.ShardWriter(f"{directory}/shard-%d.tar", maxcount=3, verbose=0) as writer:
            for i in range(6):
                writer.write({"__key__": str(i), "x.npy": torch.ones(2).numpy() * i, "cls": i % 2})
        data = webdataset.WebDataset(f"{directory}/shard-{{0..1}}.tar", shardshuffle=False)
        loader = webdataset.WebLoader(
            data.decode().to_tuple("x.npy", "cls").map_tuple(torch.from_numpy, int).batched(3),
            batch_size=None,
        )  # fmt: skip
        return [(run.put(x) * 2, run.put(torch.as_tensor(y))) for x, y in loader]


@case("torchinfo", modes=(STRICT,))
def convolution_summary(run: Run) -> Any:
    import torchinfo

    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten())
    info = torchinfo.summary(run.put(model), input_size=(2, 3, 8, 8), device=run.device, verbose=0)
    return [info.total_params, info.total_mult_adds, info.total_output_bytes, info.trainable_params]


@case("local_attention")
def dynamic_positions(run: Run) -> Any:
    from local_attention.local_attention import LocalAttention

    layer = LocalAttention(
        dim=8, window_size=4, causal=False, look_forward=1, autopad=True, exact_windowsize=True,
        use_xpos=False,
    )  # fmt: skip
    return run.evaluate(layer, [torch.randn(2, 7, 8) for _ in range(3)])


@case("nystrom_attention")
def nystromformer(run: Run) -> Any:
    from nystrom_attention import Nystromformer

    model = Nystromformer(dim=16, depth=1, heads=2, dim_head=8, num_landmarks=4)
    return run.train(model, [torch.randn(1, 8, 16)], steps=1)
