# SPDX-License-Identifier: Apache-2.0
"""Test cases for training loops, metrics, optimizers, data loading and reinforcement learning."""

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
def trainer(run: Run) -> Any:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = _mlp(4, 8, 1)

        def training_step(self, batch: Any) -> torch.Tensor:
            assert batch[0].device.type == run.device.type
            return torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    module = Module()
    lightning.Trainer(
        accelerator=_accelerator_name(run), devices=1, max_epochs=2, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    ).fit(run.compiled(module), _batches())  # fmt: skip
    return dict(module.named_parameters())


@case("lightning", modes=EAGER)
def checkpoints(run: Run) -> Any:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any) -> torch.Tensor:
            return torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), 0.01)

    module = Module()
    batches = _batches()
    with tempfile.TemporaryDirectory() as directory:
        settings = {
            "accelerator": _accelerator_name(run), "devices": 1, "logger": False,
            "enable_progress_bar": False, "enable_model_summary": False,
            "default_root_dir": directory, "enable_checkpointing": False,
        }  # fmt: skip
        first = lightning.Trainer(max_epochs=1, **settings)
        first.fit(module, batches)
        first.save_checkpoint(f"{directory}/one.ckpt")
        lightning.Trainer(max_epochs=2, **settings).fit(
            module, batches, ckpt_path=f"{directory}/one.ckpt"
        )
    return dict(module.named_parameters())


@case("lightning")
def fabric(run: Run) -> Any:
    import lightning

    fabric = lightning.Fabric(accelerator=_accelerator_name(run), devices=1)
    fabric.launch()
    model: Any = _mlp(4, 8, 1)
    optimizer: Any = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer = fabric.setup(run.compiled(model), optimizer)
    for batch, target in fabric.setup_dataloaders(_batches()):
        assert batch.device.type == run.device.type
        optimizer.zero_grad()
        fabric.backward(torch.nn.functional.mse_loss(model(batch), target))
        optimizer.step()
    # Return a list, because compiling a module changes the names of its parameters.
    return list(model.parameters())


@case("accelerate", modes=EAGER)
def explicit_device(run: Run) -> Any:
    import accelerate

    model = accelerate.dispatch_model(_mlp(4, 8, 2), {"": run.device})
    offloaded = accelerate.cpu_offload(_mlp(4, 8, 2), execution_device=run.device)
    with torch.no_grad():
        return [model(run.put(torch.ones(3, 4))), offloaded(torch.ones(3, 4))]


@case("accelerate")
def default_device(run: Run) -> Any:
    import accelerate
    from accelerate.state import AcceleratorState, GradientState, PartialState

    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    accelerator = accelerate.Accelerator(cpu=run.device.type == "cpu")
    assert accelerator.device.type == run.device.type, f"the device is {accelerator.device}"
    model: Any = run.compiled(_mlp(4, 8, 1))
    optimizer: Any = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, _batches())
    for batch, target in loader:
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.mse_loss(model(batch), target))
        optimizer.step()
    return list(model.parameters())


@case("accelerate", modes=EAGER)
def empty_weights(run: Run) -> Any:
    import accelerate

    with accelerate.init_empty_weights():
        model = torch.nn.Linear(4, 2)
    weights = {"weight": torch.ones(2, 4), "bias": torch.zeros(2)}
    with tempfile.TemporaryDirectory() as directory:
        torch.save(weights, f"{directory}/pytorch_model.bin")
        model = accelerate.load_checkpoint_and_dispatch(
            model, directory, device_map={"": run.device}
        )
    return model(run.put(torch.ones(1, 4)))


@case("pytorch_ignite")
def engine(run: Run) -> Any:
    from ignite.engine import create_supervised_evaluator, create_supervised_trainer
    from ignite.metrics import MeanSquaredError

    model = run.compiled(run.put(_mlp(4, 8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loss = torch.nn.MSELoss()
    create_supervised_trainer(model, optimizer, loss, device=run.device).run(_batches(), 2)
    metric = MeanSquaredError(device=run.device)
    evaluator = create_supervised_evaluator(model, {"mse": metric}, device=run.device)
    return list(model.parameters()), evaluator.run(_batches()).metrics


@case("skorch")
def regressor(run: Run) -> Any:
    import skorch

    data = _data()
    net = skorch.NeuralNetRegressor(
        run.compiled(_mlp(4, 8, 1)), max_epochs=2, lr=0.1, device=str(run.device), verbose=0,
        train_split=None, iterator_train__shuffle=False,
    )  # fmt: skip
    net.fit(data.tensors[0].numpy(), data.tensors[1].numpy())
    return torch.from_numpy(net.predict(data.tensors[0].numpy()))


@case("fastai")
def learner(run: Run) -> Any:
    from fastai.callback import progress  # noqa: F401 - it adds the method no_bar
    from fastai.data.core import DataLoaders
    from fastai.data.load import DataLoader
    from fastai.learner import Learner
    from fastai.optimizer import SGD

    loaders = DataLoaders(
        *(DataLoader(_data(), bs=4, num_workers=0) for _ in range(2)), device=run.device
    )
    model = run.compiled(run.put(_mlp(4, 8, 1)))
    learn = Learner(loaders, model, loss_func=torch.nn.MSELoss(), opt_func=SGD, lr=0.1)
    with contextlib.redirect_stdout(io.StringIO()), learn.no_bar(), learn.no_logging():
        learn.fit(2)
    return list(learn.model.parameters())


@case("torchinfo", modes=(STRICT,))
def summary(run: Run) -> Any:
    import torchinfo

    info = torchinfo.summary(
        run.put(_mlp(4, 8, 2)), input_data=run.put(torch.ones(1, 4)), device=run.device, verbose=0
    )
    return [info.total_params, info.total_mult_adds]


@case("torchmetrics")
def classification(run: Run) -> Any:
    import torchmetrics.classification as metrics

    scores, target = run.put([torch.randn(10, 3).softmax(1), torch.randint(0, 3, (10,))])
    kinds = (
        metrics.MulticlassAccuracy, metrics.MulticlassF1Score, metrics.MulticlassConfusionMatrix,
        metrics.MulticlassAUROC,
    )  # fmt: skip
    return [run.compiled(run.put(kind(num_classes=3)))(scores, target) for kind in kinds]


@case("torchmetrics")
def regression(run: Run) -> Any:
    import torchmetrics.regression as metrics

    a, b = run.put([torch.randn(12), torch.randn(12)])
    kinds = (metrics.PearsonCorrCoef, metrics.SpearmanCorrCoef, metrics.R2Score)
    return [run.compiled(run.put(kind()))(a, b) for kind in kinds]


@case("torchmetrics")
def images(run: Run) -> Any:
    from torchmetrics.image import PeakSignalNoiseRatio, StructuralSimilarityIndexMeasure

    a, b = run.put([torch.rand(1, 1, 16, 16), torch.rand(1, 1, 16, 16)])
    kinds = (PeakSignalNoiseRatio, StructuralSimilarityIndexMeasure)
    return [run.compiled(run.put(kind(data_range=1.0)))(a, b) for kind in kinds]


@case("torchmetrics")
def text_and_retrieval(run: Run) -> Any:
    from torchmetrics.retrieval import RetrievalMAP
    from torchmetrics.text import Perplexity

    scores, target = run.put([torch.randn(2, 5, 7), torch.randint(0, 7, (2, 5))])
    ranks, found = run.put([torch.rand(6), torch.tensor([1, 0, 1, 0, 1, 0])])
    queries = run.put(torch.tensor([0, 0, 0, 1, 1, 1]))
    perplexity, precision = run.put([Perplexity(), RetrievalMAP()])
    return [
        run.compiled(perplexity)(scores, target),
        run.compiled(precision)(ranks, found, indexes=queries),
    ]


@case("safetensors", modes=EAGER)
def file_to_device(run: Run) -> Any:
    import safetensors.torch

    tensors = {"a": torch.randn(3, 2), "b": torch.arange(4), "c": torch.ones(2).bfloat16()}
    with tempfile.TemporaryDirectory() as directory:
        safetensors.torch.save_file(run.put(tensors), f"{directory}/x.safetensors")
        loaded = safetensors.torch.load_file(f"{directory}/x.safetensors", device=str(run.device))
    assert {tensor.device.type for tensor in loaded.values()} == {run.device.type}
    return loaded


@case("safetensors", modes=EAGER)
def part_of_a_file(run: Run) -> Any:
    import safetensors
    import safetensors.torch

    with tempfile.TemporaryDirectory() as directory:
        safetensors.torch.save_file({"a": torch.randn(4, 3)}, f"{directory}/x.safetensors")
        with safetensors.safe_open(
            f"{directory}/x.safetensors", "pt", device=str(run.device)
        ) as file:
            part = file.get_slice("a")[1:3]
    assert part.device.type == run.device.type
    return part


@case("safetensors", modes=EAGER)
def model_file(run: Run) -> Any:
    import safetensors.torch

    model, other = run.put([_mlp(4, 8, 2), _mlp(4, 8, 2)])
    with tempfile.TemporaryDirectory() as directory:
        safetensors.torch.save_model(model, f"{directory}/x.safetensors")
        safetensors.torch.load_model(other, f"{directory}/x.safetensors", device=str(run.device))
    return dict(other.named_parameters())


@case("einops")
def rearrange(run: Run) -> Any:
    import einops

    x = run.put(torch.randn(2, 6, 4))

    def apply(x: torch.Tensor) -> list[torch.Tensor]:
        return [
            einops.rearrange(x, "b (h w) c -> b c h w", h=2),
            einops.reduce(x, "b n c -> b c", "mean"),
            einops.einsum(x, x, "b n c, b m c -> b n m"),
            einops.repeat(x, "b n c -> b n r c", r=2),
        ]

    return run.compiled(apply)(x)


@case("einops")
def einops_layers(run: Run) -> Any:
    from einops.layers.torch import EinMix, Rearrange

    model = torch.nn.Sequential(
        EinMix("b n c -> b n d", weight_shape="c d", bias_shape="d", c=4, d=3),
        Rearrange("b n d -> b (n d)"),
    )
    return run.train(model, [torch.randn(2, 5, 4)])


@case("entmax")
def sparse_softmax(run: Run) -> Any:
    from entmax import entmax15, sparsemax

    x = run.put(torch.randn(3, 6)).requires_grad_()
    outputs = run.compiled(lambda x: [sparsemax(x, dim=1), entmax15(x, dim=1)])(x)
    loss = sum((y * y).sum() for y in outputs)
    return outputs, torch.autograd.grad(loss, x)


@case("pytorch_crf")
def crf(run: Run) -> Any:
    from torchcrf import CRF

    layer = run.put(CRF(3, batch_first=True))
    scores, tags = run.put([torch.randn(2, 5, 3), torch.randint(0, 3, (2, 5))])
    likelihood = run.compiled(layer)(scores, tags)
    likelihood.backward()
    return likelihood, layer.transitions.grad, torch.tensor(layer.decode(scores))


@case("pytorch_optimizer")
def adabelief(run: Run) -> Any:
    from pytorch_optimizer import AdaBelief

    return run.optimize(lambda p: AdaBelief(p, lr=1e-3, eps=1e-8))


@case("pytorch_optimizer")
def lookahead(run: Run) -> Any:
    from pytorch_optimizer import Lookahead

    return run.optimize(lambda p: Lookahead(torch.optim.SGD(p, lr=0.1), k=2))


@case("torch_optimizer")
def radam_and_yogi(run: Run) -> Any:
    from torch_optimizer import Yogi

    return run.optimize(lambda p: Yogi(p, lr=1e-2))


# Not compiled: a step reads values of tensors, so Dynamo finds no graph in it.
@case("prodigyopt", modes=EAGER)
def prodigy(run: Run) -> Any:
    from prodigyopt import Prodigy

    return run.optimize(lambda p: Prodigy(p, lr=1.0))


@case("schedulefree")
def schedule_free(run: Run) -> Any:
    from schedulefree import SGDScheduleFree

    model = run.put(_mlp(4, 8, 2))
    optimizer = SGDScheduleFree(model.parameters(), lr=0.1, warmup_steps=2)
    step = run.compiled(optimizer.step)
    inputs = run.put(torch.randn(5, 4))
    optimizer.train()
    for _ in range(3):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        step()
    optimizer.eval()
    return dict(model.named_parameters())


@case("torch_ema")
def moving_average(run: Run) -> Any:
    from torch_ema import ExponentialMovingAverage

    model = run.put(torch.nn.Linear(3, 2))
    average = ExponentialMovingAverage(model.parameters(), decay=0.9)
    with torch.no_grad():
        model.weight.mul_(2)
    run.compiled(average.update)()
    with average.average_parameters():
        return [parameter.detach().clone() for parameter in model.parameters()]


@case("pytorch_tabnet")
def tabnet(run: Run) -> Any:
    from pytorch_tabnet.tab_network import TabNet

    model = TabNet(6, 2, n_d=4, n_a=4, n_steps=2, group_attention_matrix=run.put(torch.eye(6)))
    return run.train(model, [torch.randn(8, 6)], steps=1)


@case("rtdl_num_embeddings")
def numbers(run: Run) -> Any:
    from rtdl_num_embeddings import LinearReLUEmbeddings, PeriodicEmbeddings

    model = torch.nn.ModuleList([LinearReLUEmbeddings(3, 4), PeriodicEmbeddings(3, 4, lite=False)])

    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = model

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [part(x) for part in self.parts]

    return run.train(Both(), [torch.randn(5, 3)])


@case("tabm")
def ensemble(run: Run) -> Any:
    from tabm import TabM

    model = TabM.make(n_num_features=4, cat_cardinalities=[], d_out=1, k=3, n_blocks=1, d_block=8)
    return run.train(model, [torch.randn(5, 4)])


@case("tensordict")
def dictionaries(run: Run) -> Any:
    from tensordict import TensorDict

    data = TensorDict({"a": torch.randn(4, 3), "b": {"c": torch.arange(4)}}, batch_size=[4])

    def apply(data: Any) -> Any:
        return torch.stack([data, data * 2], 0), data[1:3], data.reshape(2, 2)

    return [result.to_dict() for result in run.compiled(apply)(data.to(run.device))]


@case("tensordict")
def tensordict_module(run: Run) -> Any:
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    first = TensorDictModule(torch.nn.Linear(3, 4), in_keys=["a"], out_keys=["hidden"])
    second = TensorDictModule(torch.nn.Linear(4, 1), in_keys=["hidden"], out_keys=["value"])
    model = run.put(TensorDictSequential(first, second))
    data = TensorDict({"a": torch.randn(4, 3)}, batch_size=[4]).to(run.device)
    output = run.compiled(model)(data)
    output["value"].sum().backward()
    return output.to_dict(), [parameter.grad for parameter in model.parameters()]


@case("torchrl")
def advantages(run: Run) -> Any:
    from torchrl.objectives.value.functional import (
        generalized_advantage_estimate,
        td_lambda_return_estimate,
    )

    value, after, reward = run.put([torch.randn(1, 6, 1) for _ in range(3)])
    done = run.put(torch.tensor([0, 0, 1, 0, 0, 1]).bool().reshape(1, 6, 1))

    def apply(value: torch.Tensor, after: torch.Tensor, reward: torch.Tensor) -> Any:
        return [
            generalized_advantage_estimate(0.9, 0.8, value, after, reward, done),
            td_lambda_return_estimate(0.9, 0.8, after, reward, done),
        ]

    return run.compiled(apply)(value, after, reward)


@case("torchrl", modes=EAGER)
def replay_buffer(run: Run) -> Any:
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(10, device=run.device), batch_size=4)
    data = TensorDict({"obs": torch.arange(6.0), "reward": torch.ones(6)}, batch_size=[6])
    buffer.extend(data.to(run.device))
    sample = buffer.sample()
    assert sample.device.type == run.device.type
    return buffer[:].to_dict()


@case("torchrl")
def actor(run: Run) -> Any:
    from torchrl.modules import MLP, TanhNormal

    model = run.put(MLP(in_features=3, out_features=4, num_cells=[8]))

    def likelihood(observations: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        mean, scale = model(observations).chunk(2, -1)
        return TanhNormal(mean, scale.exp()).log_prob(actions).sum()

    inputs = run.put([torch.randn(5, 3), torch.full((5, 2), 0.3)])
    loss = run.compiled(likelihood)(*inputs)
    loss.backward()
    return loss, [parameter.grad for parameter in model.parameters()]


@case("stable_baselines3")
def policy(run: Run) -> Any:
    import numpy
    from gymnasium import spaces
    from stable_baselines3.common.policies import ActorCriticPolicy

    model = ActorCriticPolicy(
        spaces.Box(-1, 1, (3,), numpy.float32), spaces.Discrete(2), lambda _: 0.1, net_arch=[8]
    )
    model = run.put(model)
    observations, actions = run.put([torch.randn(5, 3), torch.randint(0, 2, (5,))])
    evaluate = run.compiled(model.evaluate_actions)
    values, likelihood, entropy = evaluate(observations, actions)
    (values.sum() - likelihood.sum() + entropy.sum()).backward()
    return values, likelihood, entropy, [p.grad for p in model.parameters() if p.grad is not None]


@case("torchdata", modes=EAGER)
def nodes(run: Run) -> Any:
    from torchdata import nodes

    source = nodes.IterableWrapper(range(6))
    batches = nodes.Batcher(nodes.Mapper(source, float), batch_size=3)
    return [run.put(torch.tensor(batch)) * 2 for batch in nodes.Loader(batches)]


@case("torchdata", modes=EAGER)
def stateful_loader(run: Run) -> Any:
    from torchdata.stateful_dataloader import StatefulDataLoader

    loader = StatefulDataLoader(_data(), batch_size=2)
    iterator = iter(loader)
    next(iterator)
    resumed = StatefulDataLoader(_data(), batch_size=2)
    resumed.load_state_dict(loader.state_dict())
    return len(list(resumed)), [run.put(batch).sum() for batch, _ in StatefulDataLoader(_data())]


@case("webdataset", modes=EAGER)
def shards(run: Run) -> Any:
    import webdataset

    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/shard.tar"
        with webdataset.TarWriter(path) as writer:
            for i in range(4):
                writer.write({"__key__": str(i), "x.pth": torch.full((2,), float(i))})
        data = webdataset.WebDataset(path, shardshuffle=False).decode().to_tuple("x.pth")
        batches = [run.put(batch[0]) for batch in data.batched(2)]
    return [batch * 2 for batch in batches]
