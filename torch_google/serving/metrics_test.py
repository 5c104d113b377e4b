# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re

from torch_google.serving.metrics import Histogram, Metrics

_LINE = re.compile(
    r'# (HELP|TYPE) serving_\w+ .+|serving_\w+(\{\w+="[^"]*"\})? [0-9.e+-]+', re.ASCII
)


def test_the_buckets_of_a_histogram_are_cumulative() -> None:
    histogram = Histogram("serving_x", "Help.", (1, 2.5))
    for value in (0.5, 1, 2, 3):
        histogram.observe(value)
    assert list(histogram.lines())[1:] == [
        'serving_x_bucket{le="1"} 2\n',
        'serving_x_bucket{le="2.5"} 3\n',
        'serving_x_bucket{le="+Inf"} 4\n',
        "serving_x_sum 6.5\nserving_x_count 4\n",
    ]


def test_every_line_has_prometheus_s_format() -> None:
    metrics = Metrics(12)
    metrics.requests.add(1, "200")
    metrics.resident.set(5e9, "0")
    metrics.batch_size.observe(12)
    text = metrics.text()
    for line in text.splitlines():
        assert _LINE.fullmatch(line), line
    assert 'serving_requests_total{status="200"} 1\n' in text
    assert 'serving_worker_resident_bytes{worker="0"} 5000000000\n' in text
    assert re.findall(r'batch_size_bucket\{le="(\S+)"\}', text) == [
        "1",
        "2",
        "4",
        "8",
        "12",
        "+Inf",
    ]
