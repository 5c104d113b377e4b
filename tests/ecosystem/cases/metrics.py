# SPDX-License-Identifier: Apache-2.0
"""Test cases for metrics: torchmetrics by domain, ignite's, and metric learning."""

from __future__ import annotations

from typing import Any

import torch

from tests.ecosystem.case import EAGER, Run, case


def _boxes(count: int) -> torch.Tensor:
    corners = torch.rand(count, 2, 2) * 30
    return torch.cat([corners.amin(1), corners.amax(1) + 1], dim=1)


@case("torchmetrics")
def binary_curves(run: Run) -> Any:
    import torchmetrics.classification as metrics

    scores, target = run.put([torch.rand(20), torch.randint(0, 2, (20,))])
    kinds = (
        metrics.BinaryROC, metrics.BinaryPrecisionRecallCurve, metrics.BinaryAveragePrecision,
        metrics.BinaryCalibrationError, metrics.BinaryMatthewsCorrCoef, metrics.BinaryCohenKappa,
    )  # fmt: skip
    return [run.compiled(run.put(kind()))(scores, target) for kind in kinds]


@case("torchmetrics")
def multilabel(run: Run) -> Any:
    import torchmetrics.classification as metrics

    scores, target = run.put([torch.rand(10, 4), torch.randint(0, 2, (10, 4))])
    kinds = (
        metrics.MultilabelF1Score, metrics.MultilabelJaccardIndex, metrics.MultilabelRankingLoss,
        metrics.MultilabelCoverageError, metrics.MultilabelExactMatch,
    )  # fmt: skip
    return [run.compiled(run.put(kind(num_labels=4)))(scores, target) for kind in kinds]


@case("torchmetrics")
def errors(run: Run) -> Any:
    import torchmetrics.regression as metrics

    a, b = run.put([torch.rand(12) + 0.1, torch.rand(12) + 0.1])
    kinds = (
        metrics.ExplainedVariance, metrics.KendallRankCorrCoef, metrics.ConcordanceCorrCoef,
        metrics.MeanAbsolutePercentageError, metrics.TweedieDevianceScore, metrics.LogCoshError,
        metrics.MeanSquaredLogError,
    )  # fmt: skip
    return [run.compiled(run.put(kind()))(a, b) for kind in kinds]


@case("torchmetrics")
def image_quality(run: Run) -> Any:
    from torchmetrics import image

    a, b = run.put([torch.rand(1, 3, 32, 32), torch.rand(1, 3, 32, 32)])
    kinds = (
        image.UniversalImageQualityIndex, image.SpectralAngleMapper, image.TotalVariation,
        image.ErrorRelativeGlobalDimensionlessSynthesis, image.SpectralDistortionIndex,
    )  # fmt: skip
    metrics = [run.compiled(run.put(kind())) for kind in kinds]
    return [
        metric(a) if kind is image.TotalVariation else metric(a, b)
        for kind, metric in zip(kinds, metrics, strict=True)
    ]


@case("torchmetrics")
def audio_quality(run: Run) -> Any:
    from torchmetrics import audio

    a, b = run.put([torch.randn(2, 64), torch.randn(2, 64)])
    kinds = (
        audio.SignalNoiseRatio, audio.ScaleInvariantSignalDistortionRatio,
        audio.ScaleInvariantSignalNoiseRatio,
    )  # fmt: skip
    separated = audio.PermutationInvariantTraining(_signal_noise_ratio, eval_func="max")
    ratios = [run.compiled(run.put(kind()))(a, b) for kind in kinds]
    return ratios, run.compiled(run.put(separated))(a[None], b[None])


def _signal_noise_ratio(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    from torchmetrics.functional.audio import signal_noise_ratio

    ratio: torch.Tensor = signal_noise_ratio(prediction, target)
    return ratio


@case("torchmetrics")
def detection(run: Run) -> Any:
    from torchmetrics.detection import (
        CompleteIntersectionOverUnion,
        GeneralizedIntersectionOverUnion,
        IntersectionOverUnion,
    )

    labels = torch.tensor([0, 1, 0])
    predicted = [run.put({"boxes": _boxes(3), "scores": torch.rand(3), "labels": labels})]
    target = [run.put({"boxes": _boxes(3), "labels": labels})]
    kinds = (IntersectionOverUnion, GeneralizedIntersectionOverUnion, CompleteIntersectionOverUnion)
    return [run.compiled(run.put(kind()))(predicted, target) for kind in kinds]


@case("torchmetrics")
def clusters(run: Run) -> Any:
    from torchmetrics import clustering

    a, b = run.put([torch.randint(0, 3, (20,)), torch.randint(0, 3, (20,))])
    points = run.put(torch.randn(20, 2))
    kinds = (
        clustering.MutualInfoScore, clustering.NormalizedMutualInfoScore,
        clustering.AdjustedRandScore, clustering.RandScore, clustering.HomogeneityScore,
        clustering.VMeasureScore,
    )  # fmt: skip
    inner = (clustering.CalinskiHarabaszScore, clustering.DaviesBouldinScore)
    return (
        [run.compiled(run.put(kind()))(a, b) for kind in kinds],
        [run.compiled(run.put(kind()))(points, a) for kind in inner],
    )


@case("torchmetrics")
def nominal_association(run: Run) -> Any:
    from torchmetrics import nominal

    a, b = run.put([torch.randint(0, 3, (30,)), torch.randint(0, 3, (30,))])
    kinds = (nominal.CramersV, nominal.TheilsU, nominal.TschuprowsT)
    return [run.compiled(run.put(kind(num_classes=3)))(a, b) for kind in kinds]


@case("torchmetrics")
def segmentation(run: Run) -> Any:
    from torchmetrics.segmentation import GeneralizedDiceScore, MeanIoU

    a, b = run.put([torch.randint(0, 3, (2, 8, 8)), torch.randint(0, 3, (2, 8, 8))])
    kinds = (MeanIoU, GeneralizedDiceScore)
    metrics = [run.put(kind(num_classes=3, input_format="index")) for kind in kinds]
    return [run.compiled(metric)(a, b) for metric in metrics]


@case("torchmetrics")
def retrieval(run: Run) -> Any:
    from torchmetrics import retrieval as metrics

    ranks, relevant = run.put([torch.rand(8), torch.tensor([1, 0, 1, 0, 1, 0, 0, 1])])
    queries = run.put(torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]))
    kinds = (
        metrics.RetrievalNormalizedDCG, metrics.RetrievalMRR, metrics.RetrievalPrecision,
        metrics.RetrievalRecall, metrics.RetrievalHitRate, metrics.RetrievalFallOut,
    )  # fmt: skip
    metrics = [run.compiled(run.put(kind())) for kind in kinds]
    return [metric(ranks, relevant, indexes=queries) for metric in metrics]


@case("torchmetrics", modes=EAGER)
def text_errors(run: Run) -> Any:
    from torchmetrics import text

    predicted, target = ["a cat sat", "hello there"], ["a cat sits", "hello here"]
    kinds = (text.WordErrorRate, text.CharErrorRate, text.MatchErrorRate, text.EditDistance)
    bleu = run.put(text.BLEUScore(n_gram=2))
    values = [run.put(kind())(predicted, target) for kind in kinds]
    return values, bleu(predicted, [[sentence] for sentence in target])


@case("torchmetrics")
def collection(run: Run) -> Any:
    from torchmetrics import MetricCollection
    from torchmetrics.classification import (
        MulticlassAccuracy,
        MulticlassPrecision,
        MulticlassRecall,
        MulticlassStatScores,
    )

    kinds = (MulticlassAccuracy, MulticlassPrecision, MulticlassRecall, MulticlassStatScores)
    metrics = run.put(MetricCollection([kind(num_classes=3) for kind in kinds]))
    update = run.compiled(metrics.update)
    for _ in range(3):
        update(*run.put([torch.randn(5, 3), torch.randint(0, 3, (5,))]))
    return metrics.compute()


@case("torchmetrics")
def running_aggregates(run: Run) -> Any:
    import torchmetrics

    values = run.put(torch.randn(4, 3))
    metrics = [
        torchmetrics.MeanMetric(), torchmetrics.SumMetric(), torchmetrics.MaxMetric(),
        torchmetrics.CatMetric(), torchmetrics.RunningMean(window=2),
    ]  # fmt: skip
    for metric in metrics:
        update = run.compiled(run.put(metric).update)
        for row in values:
            update(row)
    return [metric.compute() for metric in metrics]


@case("torchmetrics", modes=EAGER)
def tracked_and_bootstrapped(run: Run) -> Any:
    from torchmetrics import MetricTracker
    from torchmetrics.regression import MeanSquaredError
    from torchmetrics.wrappers import MinMaxMetric, MultioutputWrapper

    tracker = run.put(MetricTracker(MeanSquaredError(), maximize=False))
    bounds = run.put(MinMaxMetric(MeanSquaredError()))
    several = run.put(MultioutputWrapper(MeanSquaredError(), 2))
    for _ in range(2):
        a, b = run.put([torch.randn(5, 2), torch.randn(5, 2)])
        tracker.increment()
        tracker.update(a, b)
        several.update(a, b)
        result = bounds(a, b)
    return tracker.compute_all(), tracker.best_metric(), result, several.compute()


@case("torchmetrics", modes=EAGER)
def saved_metric(run: Run) -> Any:
    from torchmetrics.classification import MulticlassConfusionMatrix

    first, second = run.put([MulticlassConfusionMatrix(3), MulticlassConfusionMatrix(3)])
    for metric in (first, second):
        metric.persistent(True)
    first.update(*run.put([torch.randint(0, 3, (10,)), torch.randint(0, 3, (10,))]))
    second.load_state_dict(first.state_dict())
    return first.compute(), second.confmat


@case("pytorch_ignite")
def ignite_metrics(run: Run) -> Any:
    from ignite import metrics

    scores, target = run.put([torch.randn(10, 3), torch.randint(0, 3, (10,))])
    kinds: list[Any] = [
        metrics.Accuracy(device=run.device), metrics.Precision(device=run.device),
        metrics.Recall(average=True, device=run.device),
        metrics.TopKCategoricalAccuracy(2, device=run.device),
        metrics.ConfusionMatrix(3, device=run.device),
        metrics.Loss(torch.nn.functional.cross_entropy, device=run.device),
    ]  # fmt: skip
    for metric in kinds:
        run.compiled(metric.update)((scores, target))
    return [metric.compute() for metric in kinds]


@case("pytorch_ignite")
def ignite_image_metrics(run: Run) -> Any:
    from ignite.metrics import PSNR, SSIM

    images = run.put([torch.rand(2, 3, 16, 16), torch.rand(2, 3, 16, 16)])
    kinds = [SSIM(data_range=1.0, device=run.device), PSNR(data_range=1.0, device=run.device)]
    for metric in kinds:
        run.compiled(metric.update)(tuple(images))
    return [metric.compute() for metric in kinds]


@case("pytorch_ignite", modes=EAGER)
def handlers(run: Run) -> Any:
    from ignite.engine import Events, create_supervised_trainer
    from ignite.handlers import EMAHandler, LRScheduler, TerminateOnNan

    inputs = torch.randn(8, 4)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
    model = run.put(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    trainer = create_supervised_trainer(
        model, optimizer, torch.nn.functional.mse_loss, device=run.device
    )
    average = EMAHandler(model, momentum=0.1)
    average.attach(trainer)
    schedule = LRScheduler(torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5))
    trainer.add_event_handler(Events.EPOCH_COMPLETED, schedule)
    trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())
    trainer.run(torch.utils.data.DataLoader(data, batch_size=4), 2)
    return dict(model.named_parameters()), dict(average.ema_model.named_parameters())


@case("pytorch_metric_learning")
def proxy_losses(run: Run) -> Any:
    from pytorch_metric_learning import losses

    x, labels = run.put([torch.randn(8, 4), torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])])
    x.requires_grad_()
    kinds = (losses.ArcFaceLoss, losses.ProxyAnchorLoss, losses.CosFaceLoss, losses.SoftTripleLoss)
    layers = [run.put(kind(num_classes=4, embedding_size=4)) for kind in kinds]
    loss = run.compiled(lambda x: sum(layer(x, labels) for layer in layers))(x)
    loss.backward()
    return loss, x.grad, [[p.grad for p in layer.parameters()] for layer in layers]


@case("pytorch_metric_learning")
def pair_losses(run: Run) -> Any:
    from pytorch_metric_learning import distances, losses, reducers

    x, labels = run.put([torch.randn(8, 4), torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])])
    x.requires_grad_()
    kinds = [
        losses.MultiSimilarityLoss(), losses.CircleLoss(), losses.SupConLoss(),
        losses.LiftedStructureLoss(distance=distances.LpDistance()),
        losses.ContrastiveLoss(reducer=reducers.AvgNonZeroReducer()),
    ]  # fmt: skip
    values = run.compiled(lambda x: [kind(x, labels) for kind in kinds])(x)
    return values, torch.autograd.grad(sum(values), x)


@case("pytorch_metric_learning")
def mined_pairs(run: Run) -> Any:
    from pytorch_metric_learning import miners

    x, labels = run.put([torch.randn(8, 4), torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])])
    kinds = (miners.MultiSimilarityMiner(), miners.TripletMarginMiner(margin=0.2))
    return run.compiled(lambda x: [kind(x, labels) for kind in kinds])(x)
