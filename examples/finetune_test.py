# SPDX-License-Identifier: Apache-2.0
"""Run the packed program on both devices, and load the adapters that it wrote."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from examples import finetuning

_PAR = Path(__file__).with_name("finetune.par")


def _run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [_PAR, *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def _losses(output: str) -> tuple[float, float]:
    match = re.search(r"loss on unseen text (\S+), with the adapter (\S+)", output)
    assert match, output
    return float(match[1]), float(match[2])


@pytest.fixture(name="programs", scope="module")
def _programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, Path]]:
    """Run the program on each device. Return its stdout and output directory, keyed by device."""
    out: dict[str, tuple[str, Path]] = {}
    for device in ("cpu", "tpu"):
        directory = tmp_path_factory.mktemp(device)
        result = _run(
            "--base_steps=60", "--steps=40", f"--device={device}", f"--output={directory}"
        )
        assert result.returncode == 0, result.stderr
        out[device] = result.stdout, directory
    return out


def test_the_adapter_improves_the_loss_equally_on_both_devices(
    programs: dict[str, tuple[str, Path]],
) -> None:
    before, after = _losses(programs["cpu"][0])
    assert after < before - 0.1
    assert _losses(programs["tpu"][0]) == pytest.approx((before, after), abs=0.01)
    assert " parameters on tpu" in programs["tpu"][0]
    assert " parameters on cpu" in programs["cpu"][0]


def test_an_adapter_that_is_loaded_again_has_the_same_loss(tmp_path: Path) -> None:
    texts = [finetuning.read(finetuning.packed(name)) for name in ("guide.txt", "licence.txt")]
    options = finetuning.Options(base_steps=10, steps=10, device="cpu", seed=0)
    result = finetuning.finetune(texts[0], texts[1], options, lambda *_: None)
    assert (result.device.type, result.trained < result.parameters / 10) == ("cpu", True)
    result.model.save_pretrained(tmp_path)
    again = finetuning.loss_of(result, tmp_path, texts[1][1], options)
    assert again == pytest.approx(result.loss, abs=1e-6)


def test_the_adapter_is_in_pefts_format(programs: dict[str, tuple[str, Path]]) -> None:
    for _, directory in programs.values():
        config = json.loads((directory / "adapter_config.json").read_text())
        assert (config["peft_type"], config["r"]) == ("LORA", 8)
        assert (directory / "adapter_model.safetensors").stat().st_size > 100_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file or directory. Give a readable file."),
        ("short", "found 5 bytes, expected at least 512. Give a longer text."),
    ],
)
def test_a_bad_text_is_one_line(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "text"
    if text:
        file.write_text(text)
    result = _run(f"--text={file}", f"--output={tmp_path}/out")
    assert (result.returncode, result.stderr) == (1, f"finetune: {file}: {message}\n")
    assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    result = _run(f"--output={file}/out")
    assert result.returncode == 1
    assert result.stderr == (
        f"finetune: --output={file}/out: Not a directory. Give a writable directory.\n"
    )


def test_a_device_that_is_not_registered_is_one_line(tmp_path: Path) -> None:
    result = _run("--device=tpu", f"--output={tmp_path}", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("finetune: --device=tpu: accelerate chose cpu")
    assert not list(tmp_path.iterdir())
