"""Training: repeatable to the bit, well placed, and honest about what goes wrong."""

import dataclasses
import json
import math
import platform
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from pocketnas.errors import UsageError
from pocketnas.nas.batches import Batches, Normalizer
from pocketnas.nas.data import Dataset, Split, load_data
from pocketnas.nas.memory import keep_freed_memory
from pocketnas.nas.recipe import TrainSettings, learning_rate_at
from pocketnas.nas.trainer import TrainingDiverged, measure_accuracy, predict, train
from pocketnas.searchspace import build_network, load_space

SHORT = TrainSettings(epochs=2, train_images=300)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_data("digits")


def small_network(seed=0, dropout=0.0, channels=1) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(channels, 8, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Dropout(dropout),
            nn.Linear(32, 10),
        )


def same_weights(first: nn.Module, second: nn.Module) -> bool:
    a, b = first.state_dict(), second.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def losses(result):
    return [epoch.loss for epoch in result.epochs]


# --- what it learns ---


def test_five_epochs_of_digits_teach_the_base_network_of_the_mini_space(digits):
    torch.manual_seed(0)
    base = load_space("mnasnet-mini").base
    network = build_network(base, digits.input_shape, digits.classes)
    untrained = measure_accuracy(network, digits.validation, digits)
    result = train(network, digits, seed=0)
    assert untrained < 0.3
    assert result.accuracy > 0.9
    assert measure_accuracy(network, digits.test, digits) > 0.9
    assert len(result.epochs) == 5
    assert losses(result)[-1] < losses(result)[0] / 3


def test_accuracy_is_that_of_the_network_it_leaves_on_the_validation_split(digits):
    network = small_network()
    result = train(network, digits, SHORT)
    logits = predict(network, digits.validation.images, digits)
    assert result.accuracy == np.mean(logits.argmax(1) == digits.validation.labels)
    assert result.accuracy == measure_accuracy(network, digits.validation, digits)


def test_validation_and_test_images_are_not_learned_from(digits):
    def spoiled(split: Split) -> Split:
        return Split(255 - split.images, split.labels[::-1].copy())

    other = dataclasses.replace(
        digits, validation=spoiled(digits.validation), test=spoiled(digits.test)
    )
    first, second = small_network(), small_network()
    train(first, digits, SHORT)
    train(second, other, SHORT)
    assert same_weights(first, second)


# --- the same again ---


@pytest.mark.parametrize(
    "changes", [{}, {"augment": "light"}, {"augment": "mirror", "label_smoothing": 0.1}]
)
def test_same_seed_gives_the_same_weights_to_the_bit(digits, changes):
    settings = dataclasses.replace(SHORT, **changes)
    first, second, other = (small_network(dropout=0.2) for _ in range(3))
    a = train(first, digits, settings, seed=7)
    torch.rand(5)  # What torch's own generator has been through must not matter.
    b = train(second, digits, settings, seed=7)
    c = train(other, digits, settings, seed=8)
    assert same_weights(first, second)
    assert (a.accuracy, losses(a)) == (b.accuracy, losses(b))
    assert not same_weights(first, other)
    assert losses(a) != losses(c)


def test_candidate_of_the_mini_space_trains_the_same_in_another_process():
    code = """
import hashlib, numpy, torch
from pocketnas.nas.data import load_data
from pocketnas.nas.trainer import TrainSettings, train
from pocketnas.searchspace import build_network, load_space
space, digits = load_space("mnasnet-mini"), load_data("digits")
arch = space.decode(space.sample(numpy.random.default_rng(0)))
torch.manual_seed(0)
network = build_network(arch, digits.input_shape, digits.classes, dropout=0.1)
result = train(network, digits, TrainSettings(epochs=1, train_images=100, augment="light"))
digest = hashlib.sha256(repr(result.accuracy).encode())
for tensor in network.state_dict().values():
    digest.update(tensor.numpy().tobytes())
print(digest.hexdigest())
"""
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout


def test_torchs_own_generator_and_threads_are_left_alone(digits):
    torch.manual_seed(1)
    threads, expected = torch.get_num_threads(), torch.rand(3)
    torch.manual_seed(1)
    train(small_network(dropout=0.5), digits, SHORT)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads


# --- what it leaves behind ---


def test_network_comes_back_in_the_default_layout_in_evaluation_mode(digits):
    network = small_network()
    train(network, digits, SHORT)
    assert not network.training
    assert all(p.is_contiguous() and p.grad is None for p in network.parameters())


def test_training_uses_one_thread_unless_told_otherwise(digits):
    seen = []
    network = small_network()
    network[0].register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        train(network, digits, SHORT)
        assert set(seen) == {1}
        train(network, digits, dataclasses.replace(SHORT, threads=3))
        assert set(seen) == {1, 3}
    finally:
        torch.set_num_threads(before)


def test_training_runs_in_the_channels_last_format(digits):
    seen = []
    network = small_network()
    network[1].register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    train(network, digits, SHORT)
    assert all(x.is_contiguous(memory_format=torch.channels_last) for x in seen)


def test_prediction_leaves_the_mode_and_takes_any_number_of_images(digits):
    network = small_network(dropout=0.5).train()
    every = predict(network, digits.train.images, digits)
    assert network.training
    assert every.shape == (len(digits.train), 10)
    one = predict(network, digits.train.images[:1], digits)
    np.testing.assert_allclose(one[0], every[0], rtol=1e-4, atol=1e-5)


def test_result_is_json(digits):
    seen = []
    result = train(small_network(), digits, SHORT, seed=3, on_epoch=seen.append)
    assert tuple(seen) == result.epochs
    assert [epoch.epoch for epoch in seen] == [1, 2]
    table = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert table["accuracy"] == result.accuracy
    assert table["settings"]["train_images"] == 300
    assert table["device"] == "cpu"
    assert abs(table["images"] - 300) <= 10


# --- what goes wrong ---


def test_loss_that_is_not_finite_is_an_error_and_puts_the_network_back(digits):
    network = small_network()
    with pytest.raises(TrainingDiverged, match=r"diverged in epoch \d+: the loss is (nan|inf)"):
        train(network, digits, dataclasses.replace(SHORT, learning_rate=1e30))
    assert not network.training
    assert all(p.is_contiguous() for p in network.parameters())


def test_logits_that_are_not_finite_are_an_error(digits):
    class Treacherous(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = small_network()

        def forward(self, images):
            logits = self.inner(images)
            return logits if self.training else logits / 0

    with pytest.raises(TrainingDiverged, match="logits that are not finite"):
        train(Treacherous(), digits, SHORT)


@pytest.mark.parametrize("device", ["cuda:99", "toaster"])
def test_device_that_is_not_there_is_named(digits, device):
    with pytest.raises(UsageError, match=f"cannot train on device '{device}'"):
        train(small_network(), digits, SHORT, device=device)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1 but got 0"),
        ({"batch_size": 1}, "batch_size must be at least 2 but got 1"),
        ({"train_images": 1}, "train_images must be at least 2 but got 1"),
        ({"threads": 0}, "threads must be at least 1 but got 0"),
        ({"learning_rate": 0.0}, "learning_rate must be a positive number but got 0"),
        ({"learning_rate": math.nan}, "learning_rate must be a positive number but got nan"),
        ({"weight_decay": -1.0}, "weight_decay cannot be negative but got -1"),
        ({"momentum": 1.0}, "momentum must be from 0 to below 1 but got 1"),
        ({"label_smoothing": -0.1}, "label_smoothing must be from 0 to below 1 but got -0.1"),
        ({"dropout": math.nan}, "dropout must be from 0 to below 1 but got nan"),
        ({"epochs": 1, "warmup_epochs": 1}, "warmup_epochs must be from 0 to below the 1 epochs"),
        ({"augment": "heavy"}, "unknown augmentation 'heavy': choose one of none, light, mirror"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        TrainSettings(**changes)


# --- its parts ---


def test_learning_rate_rises_then_falls_to_nothing():
    settings = TrainSettings(epochs=4, warmup_epochs=1, learning_rate=0.4)
    rates = [learning_rate_at(settings, step, 10) for step in range(40)]
    assert rates[0] == pytest.approx(0.04)
    assert rates[9] == rates[10] == max(rates) == pytest.approx(0.4)
    assert rates[25] == pytest.approx(0.2)
    assert all(a > b for a, b in pairwise(rates[10:]))
    assert 0 < rates[-1] < 0.002


@pytest.mark.parametrize("warmup", [0, 0.01, 0.5])
def test_learning_rate_of_the_shortest_training_is_positive(warmup):
    settings = TrainSettings(epochs=1, warmup_epochs=warmup)
    assert learning_rate_at(settings, 0, 1) > 0


def batches(split: Split, batch_size=32, augment="none", seed=0) -> Batches:
    channels = split.images.shape[-1]
    normalizer = Normalizer((0.0,) * channels, (1.0,) * channels, CPU)
    generator = torch.Generator().manual_seed(seed)
    return Batches(split, normalizer, batch_size, augment, generator)


def numbered(count: int, side: int = 8) -> Split:
    """Images that are all of one grey level: their number."""
    levels = np.arange(count, dtype=np.uint8)[:, None, None, None]
    return Split(np.broadcast_to(levels, (count, side, side, 1)).copy(), np.arange(count))


@pytest.mark.parametrize("augment", ["none", "light", "mirror"])
@pytest.mark.parametrize(("count", "batch_size"), [(65, 32), (200, 7), (5, 32), (2, 2)])
def test_every_image_comes_once_an_epoch_with_its_label(count, batch_size, augment):
    source = batches(numbered(count), batch_size, augment)
    orders = []
    for _ in range(2):
        epoch = list(source)
        assert len(epoch) == len(source)
        assert all(len(labels) >= min(batch_size, count) for _, labels in epoch)
        for images, labels in epoch:
            levels = (images * 255).round().long()
            assert torch.equal(levels, labels[:, None, None, None].expand_as(levels))
        orders.append(torch.cat([labels for _, labels in epoch]).tolist())
        assert sorted(orders[-1]) == list(range(count))
    assert orders[0] != orders[1] or count < 6


def test_normalization_is_that_of_the_data_set():
    images = torch.randint(0, 256, (4, 5, 6, 3), dtype=torch.uint8)
    mean, std = (0.1, 0.5, 0.9), (0.2, 0.3, 0.4)
    normalized = Normalizer(mean, std, CPU)(images)
    expected = (images.permute(0, 3, 1, 2) / 255 - torch.tensor(mean).view(3, 1, 1)) / (
        torch.tensor(std).view(3, 1, 1)
    )
    torch.testing.assert_close(normalized, expected)
    assert normalized.is_contiguous(memory_format=torch.channels_last)


def test_light_augmentation_shifts_by_up_to_an_eighth_and_repeats_the_edge():
    image = np.random.default_rng(0).integers(0, 256, (1, 16, 16, 3), np.uint8)
    split = Split(np.repeat(image, 200, axis=0), np.arange(200))
    ((images, _),) = batches(split, 200, "light")
    padded = functional.pad(
        torch.from_numpy(image).permute(0, 3, 1, 2) / 255.0, (2,) * 4, "replicate"
    )
    shifts = {(y, x): padded[0, :, y : y + 16, x : x + 16] for y in range(5) for x in range(5)}
    found = {
        next(by for by, shifted in shifts.items() if torch.allclose(shifted, picked))
        for picked in images
    }
    assert found == shifts.keys()


def test_mirroring_turns_half_of_the_images_around():
    ramp = np.broadcast_to(np.arange(16, dtype=np.uint8)[:, None] * 10, (400, 16, 16, 1))
    ((images, _),) = batches(Split(ramp.copy(), np.arange(400)), 400, "mirror")
    mirrored = images[:, 0, 0, 0] > images[:, 0, 0, -1]
    assert 150 < mirrored.sum() < 250
    assert (images[:, 0].diff(dim=1).abs() < 1e-6).all(), "rows must stay in their order"


def test_biases_and_batch_norms_are_not_decayed(digits):
    network = small_network()
    black = dataclasses.replace(
        digits, train=Split(np.zeros_like(digits.train.images), digits.train.labels), mean=(0.0,)
    )
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    train(network, black, dataclasses.replace(SHORT, weight_decay=0.01, momentum=0.0))
    after = dict(network.named_parameters())
    # Black images give the convolution no gradient: what changes it is decay alone.
    assert after["0.weight"].norm() < before["0.weight"].norm()
    assert torch.equal(after["1.weight"], before["1.weight"])


def test_freed_memory_is_kept_on_linux_with_glibc():
    assert keep_freed_memory() is (platform.libc_ver()[0] == "glibc")
    assert keep_freed_memory() is keep_freed_memory()
