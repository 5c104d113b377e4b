# SPDX-License-Identifier: Apache-2.0
"""Test cases for graph networks, equivariant networks and knowledge graphs."""

from __future__ import annotations

from typing import Any

import torch

from tests.ecosystem.case import EAGER, Run, case


def _graph() -> tuple[torch.Tensor, torch.Tensor]:
    edges = torch.tensor([[0, 1, 1, 2, 3, 4, 4, 0], [1, 0, 2, 1, 4, 3, 0, 4]])
    return torch.randn(5, 4), edges


def _mlp(inputs: int) -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(inputs, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))


def _gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@case("torch_geometric")
def graph_transformer(run: Run) -> Any:
    from torch_geometric.nn import TransformerConv

    inputs = [*_graph(), torch.randn(8, 2)]
    return run.train(TransformerConv(4, 3, heads=2, edge_dim=2, beta=True), inputs, steps=1)


@case("torch_geometric")
def spectral_convolutions(run: Run) -> Any:
    from torch_geometric.nn import ChebConv, Sequential, TAGConv

    model = Sequential("x, edges", [
        (ChebConv(4, 6, K=3), "x, edges -> x"), (TAGConv(6, 3, K=2), "x, edges -> x"),
    ])  # fmt: skip
    return run.train(model, _graph(), steps=1)


@case("torch_geometric")
def edge_convolution(run: Run) -> Any:
    from torch_geometric.nn import EdgeConv

    return run.train(EdgeConv(_mlp(8), aggr="max"), _graph(), steps=1)


@case("torch_geometric")
def edge_conditioned_convolution(run: Run) -> Any:
    from torch_geometric.nn import GINEConv, NNConv

    x, edges = _graph()
    features = torch.randn(8, 4)
    kinds = [NNConv(4, 3, torch.nn.Linear(4, 12), aggr="mean"), GINEConv(_mlp(4))]
    return [run.train(kind, [x, edges, features], steps=1) for kind in kinds]


@case("torch_geometric")
def relations(run: Run) -> Any:
    from torch_geometric.nn import RGCNConv

    inputs = [*_graph(), torch.randint(0, 3, (8,))]
    return run.train(RGCNConv(4, 3, num_relations=3, num_bases=2), inputs, steps=1)


@case("torch_geometric")
def heterogeneous_graph(run: Run) -> Any:
    from torch_geometric.data import HeteroData
    from torch_geometric.nn import HeteroConv, SAGEConv

    data = HeteroData()
    data["user"].x, data["item"].x = torch.randn(3, 4), torch.randn(4, 2)
    data["user", "likes", "item"].edge_index = torch.tensor([[0, 1, 2, 0], [1, 0, 3, 2]])
    data["item", "liked_by", "user"].edge_index = torch.tensor([[1, 0, 3, 2], [0, 1, 2, 0]])
    layers = {
        ("user", "likes", "item"): SAGEConv((4, 2), 3),
        ("item", "liked_by", "user"): SAGEConv((2, 4), 3),
    }
    model, data = run.put(HeteroConv(layers)), data.to(run.device)
    outputs = run.compiled(model)(data.x_dict, data.edge_index_dict)
    sum(output.square().sum() for output in outputs.values()).backward()
    return outputs, list(_gradients(model).values())


@case("torch_geometric")
def point_cloud(run: Run) -> Any:
    from torch_geometric.nn import PointNetConv

    inputs = [torch.randn(5, 4), torch.randn(5, 3), _graph()[1]]
    return run.train(PointNetConv(_mlp(7)), inputs, steps=1)


@case("torch_geometric")
def graph_norms(run: Run) -> Any:
    from torch_geometric import nn

    x, batch = run.put([torch.randn(5, 4), torch.tensor([0, 0, 0, 1, 1])])
    layers = run.put([nn.GraphNorm(4), nn.InstanceNorm(4), nn.LayerNorm(4), nn.PairNorm()])
    return run.compiled(lambda x: [layer(x, batch) for layer in layers])(x)


@case("torch_geometric")
def aggregations(run: Run) -> Any:
    from torch_geometric.nn import aggr

    x, index = run.put([torch.randn(6, 4), torch.tensor([0, 0, 1, 1, 1, 2])])
    kinds = [
        aggr.SoftmaxAggregation(learn=True), aggr.StdAggregation(), aggr.VarAggregation(),
        aggr.PowerMeanAggregation(), aggr.SortAggregation(k=2), aggr.MedianAggregation(),
        aggr.AttentionalAggregation(torch.nn.Linear(4, 1)), aggr.SetTransformerAggregation(4),
    ]  # fmt: skip
    layers = run.put(kinds)
    return run.compiled(lambda x: [layer(x, index) for layer in layers])(x.abs())


@case("torch_geometric")
def top_k_pooling(run: Run) -> Any:
    from torch_geometric.nn import SAGPooling, TopKPooling

    x, edges = run.put(_graph())
    batch = run.put(torch.tensor([0, 0, 0, 1, 1]))
    pools = run.put([TopKPooling(4, ratio=0.5), SAGPooling(4, ratio=0.5)])
    outputs = [run.compiled(pool)(x, edges, batch=batch) for pool in pools]
    return [[output[i] for i in (0, 1, 3, 4)] for output in outputs]


@case("torch_geometric")
def dense_pooling(run: Run) -> Any:
    from torch_geometric.nn import DenseGCNConv, dense_diff_pool

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features, self.clusters = DenseGCNConv(4, 6), DenseGCNConv(4, 2)

        def forward(self, x: torch.Tensor, adjacency: torch.Tensor) -> Any:
            clusters = self.clusters(x, adjacency)
            return dense_diff_pool(self.features(x, adjacency), adjacency, clusters)

    adjacency = (torch.rand(2, 5, 5) > 0.5).float()
    return run.train(Pooled(), [torch.randn(2, 5, 4), adjacency], steps=1)


@case("torch_geometric")
def graph_autoencoder(run: Run) -> Any:
    from torch_geometric.nn import GAE, GCNConv

    model = run.put(GAE(GCNConv(4, 3)))
    x, edges = run.put(_graph())
    negative = run.put(torch.tensor([[0, 1, 2], [3, 4, 4]]))

    def apply(x: torch.Tensor, edges: torch.Tensor, negative: torch.Tensor) -> Any:
        z = model.encode(x, edges)
        return model.recon_loss(z, edges, negative), z, model.decoder.forward_all(z)

    results = run.compiled(apply)(x, edges, negative)
    results[0].backward()
    return results, _gradients(model)


@case("torch_geometric")
def recommender(run: Run) -> Any:
    from torch_geometric.nn import LightGCN

    model = run.put(LightGCN(5, 4, num_layers=2))
    edges = run.put(_graph()[1])
    ranks = run.compiled(model)(edges, edges)
    loss = model.recommendation_loss(ranks[:4], ranks[4:], node_id=edges[0].unique())
    loss.backward()
    return loss, model.recommend(edges, k=2), _gradients(model)


@case("torch_geometric")
def molecular_network(run: Run) -> Any:
    from torch_geometric.nn import SchNet

    class Neighbors(torch.nn.Module):
        """All pairs of the atoms of one molecule, because radius_graph needs another package."""

        def forward(self, positions: torch.Tensor, batch: torch.Tensor) -> Any:
            count = len(positions)
            row, column = torch.nonzero(
                ~torch.eye(count, dtype=torch.bool, device=positions.device), as_tuple=True
            )
            return torch.stack([row, column]), (positions[row] - positions[column]).norm(dim=1)

    model = SchNet(
        hidden_channels=8, num_filters=8, num_interactions=1, num_gaussians=6,
        interaction_graph=Neighbors(),
    )  # fmt: skip
    return run.train(model, [torch.tensor([6, 1, 1, 8]), torch.randn(4, 3)], steps=1)


@case("torch_geometric")
def graph_loader(run: Run) -> Any:
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import GraphConv, global_mean_pool

    graphs = []
    for _ in range(4):
        x, edges = _graph()
        graphs.append(Data(x=x, edge_index=edges, y=x.sum().reshape(1)))
    layer = run.put(GraphConv(4, 1))
    forward, pool = run.compiled(layer), run.compiled(global_mean_pool)
    optimizer = torch.optim.Adam(layer.parameters(), 0.01)
    for batch in DataLoader(graphs, batch_size=2):
        batch = batch.to(run.device)
        optimizer.zero_grad()
        output = pool(forward(batch.x, batch.edge_index), batch.batch)
        torch.nn.functional.mse_loss(output[:, 0], batch.y).backward()
        optimizer.step()
    return dict(layer.named_parameters())


@case("torch_geometric", modes=EAGER)
def graph_transforms(run: Run) -> Any:
    from torch_geometric import transforms
    from torch_geometric.data import Data

    x, edges = _graph()
    data = Data(x=x.abs(), edge_index=edges, pos=torch.randn(5, 3)).to(run.device)
    steps = [
        transforms.NormalizeFeatures(), transforms.AddSelfLoops(), transforms.Distance(),
        transforms.OneHotDegree(6), transforms.Center(), transforms.GCNNorm(),
    ]  # fmt: skip
    return transforms.Compose(steps)(data).to_dict()


@case("torch_geometric")
def subgraphs(run: Run) -> Any:
    from torch_geometric import utils

    edges = run.put(_graph()[1])
    nodes = run.put(torch.tensor([0, 1, 2]))

    def apply(nodes: torch.Tensor, edges: torch.Tensor) -> list[Any]:
        return [
            utils.subgraph(nodes, edges, relabel_nodes=True)[0],
            utils.k_hop_subgraph(1, 1, edges)[0], utils.get_laplacian(edges, normalization="sym"),
            utils.coalesce(torch.cat([edges, edges], 1)), utils.remove_self_loops(edges)[0],
            utils.contains_isolated_nodes(edges, 6),
            utils.to_dense_batch(edges.t(), nodes[[0] * 8]),
        ]  # fmt: skip

    return run.compiled(apply)(nodes, edges)


@case("torch_geometric")
def link_embeddings(run: Run) -> Any:
    from torch_geometric.nn import ComplEx, DistMult, RotatE

    head, relation, tail = run.put(
        [torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([2, 3])]
    )
    models = [run.put(kind(4, 2, 6)) for kind in (DistMult, ComplEx, RotatE)]
    scores = [run.compiled(model)(head, relation, tail) for model in models]
    sum(score.sum() for score in scores).backward()
    return scores, [_gradients(model) for model in models]


@case("e3nn")
def rotations(run: Run) -> Any:
    from e3nn import o3

    # Not wigner_D: its generators are on the CPU, so it fails on every other device.
    def apply(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> list[torch.Tensor]:
        matrix = o3.angles_to_matrix(a, b, c)
        axis, angle = o3.matrix_to_axis_angle(matrix)
        return [
            matrix, axis, angle, o3.matrix_to_quaternion(matrix),
            o3.compose_angles(a, b, c, c, b, a), o3.angles_to_xyz(a, b),
        ]  # fmt: skip

    return run.compiled(apply)(*run.put(list(torch.rand(3, 4))))


@case("e3nn")
def gated_nonlinearity(run: Run) -> Any:
    from e3nn import nn, o3

    gate = nn.Gate("4x0e", [torch.tanh], "2x0e", [torch.sigmoid], "2x1o")
    model = torch.nn.Sequential(o3.Linear("3x0e + 2x1o", gate.irreps_in), gate)
    return run.train(model, [torch.randn(5, 9)], steps=1)


@case("e3nn")
def equivariant_batch_norm(run: Run) -> Any:
    from e3nn.nn import BatchNorm

    return run.train(BatchNorm("2x0e + 1x1o"), [torch.randn(6, 5)], steps=1)


@case("e3nn")
def radial_basis(run: Run) -> Any:
    from e3nn.math import soft_one_hot_linspace
    from e3nn.nn import FullyConnectedNet

    distances = run.put(torch.rand(6) * 2)
    network = run.put(FullyConnectedNet([4, 8, 3], torch.nn.functional.silu))

    def apply(distances: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        basis = soft_one_hot_linspace(distances, 0.0, 2.0, 4, basis="smooth_finite", cutoff=True)
        return basis, network(basis)

    basis, output = run.compiled(apply)(distances)
    output.square().sum().backward()
    return basis, output, _gradients(network)


@case("e3nn")
def sphere_grid(run: Run) -> Any:
    from e3nn import o3

    to_grid, from_grid = run.put([o3.ToS2Grid(2, (6, 5)), o3.FromS2Grid((6, 5), 2)])
    grid = run.compiled(to_grid)(run.put(torch.randn(2, 9)))
    return grid, run.compiled(from_grid)(grid)


def _triples() -> Any:
    import numpy
    from pykeen.triples import TriplesFactory

    triples = [["a", "r", "b"], ["b", "r", "c"], ["c", "s", "a"], ["a", "s", "d"]]
    return TriplesFactory.from_labeled_triples(numpy.array(triples))


def _scored(run: Run, name: str, **settings: Any) -> Any:
    from pykeen import models

    factory = _triples()
    model = run.put(
        getattr(models, name)(triples_factory=factory, embedding_dim=4, random_seed=0, **settings)
    )
    triples = run.put(factory.mapped_triples)
    score, score_tails, score_heads = map(
        run.compiled, (model.score_hrt, model.score_t, model.score_h)
    )
    scores = score(triples)
    scores.sum().backward()
    return scores, score_tails(triples[:, :2]), score_heads(triples[:, 1:]), _gradients(model)


@case("pykeen")
def bilinear_model(run: Run) -> Any:
    return _scored(run, "DistMult")


# Not compiled: Dynamo fails on its complex embeddings, on any device.
@case("pykeen", modes=EAGER)
def complex_model(run: Run) -> Any:
    return _scored(run, "ComplEx")


# Not compiled: AOTAutograd fails on its complex embeddings, on any device.
@case("pykeen", modes=EAGER)
def rotation_model(run: Run) -> Any:
    return _scored(run, "RotatE")


@case("pykeen")
def embedding_losses(run: Run) -> Any:
    from pykeen import losses

    positive, negative = run.put([torch.randn(3, 1), torch.randn(3, 4)])
    positive.requires_grad_()
    kinds = [losses.NSSALoss(), losses.MarginRankingLoss(), losses.SoftplusLoss()]

    def apply(positive: torch.Tensor, negative: torch.Tensor) -> list[torch.Tensor]:
        return [kind.process_slcwa_scores(positive, negative) for kind in kinds]

    values = run.compiled(apply)(positive, negative)
    return values, torch.autograd.grad(sum(values), positive)


@case("pykeen", modes=EAGER)
def ranked_triples(run: Run) -> Any:
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models import TransE

    factory = _triples()
    model = run.put(TransE(triples_factory=factory, embedding_dim=4, random_seed=0))
    ranks = RankBasedEvaluator(filtered=True).evaluate(
        model, factory.mapped_triples, batch_size=2, use_tqdm=False,
        additional_filter_triples=factory.mapped_triples,
    )  # fmt: skip
    names = ("both.realistic.hits_at_1", "both.realistic.inverse_harmonic_mean_rank")
    return {name: ranks.get_metric(name) for name in names}
