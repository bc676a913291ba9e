from __future__ import annotations

import math

import pytest
import torch

from pocketnas.nas.controller import Controller

CHOICES = (4, 2, 2, 3, 1, 5)


def draw(controller: Controller, count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return controller.sample(torch.rand(count, len(controller.choices), generator=generator))


def sharpened() -> Controller:
    """A controller with strong opinions, so that its distributions are far from uniform."""
    controller = Controller(CHOICES, seed=3)
    with torch.no_grad():
        for weights in controller.parameters():
            weights.mul_(8)
    return controller


def test_it_is_a_one_layer_lstm_of_100_units_with_weights_within_a_tenth():
    controller = Controller(CHOICES)
    assert (controller.lstm.num_layers, controller.lstm.hidden_size) == (1, 100)
    largest = [weights.abs().max().item() for weights in controller.parameters()]
    assert all(0.05 < weight <= 0.1 for weight in largest)


def test_every_decision_and_choice_has_an_embedding_of_its_own():
    assert Controller(CHOICES).embedding.num_embeddings == 1 + sum(CHOICES)


@pytest.mark.parametrize("controller", [Controller(CHOICES), sharpened()])
def test_log_probabilities_recomputed_equal_those_sampled(controller):
    tokens, log_probs = draw(controller, 200)
    recomputed, _ = controller.evaluate(tokens)
    torch.testing.assert_close(recomputed, log_probs, rtol=1e-5, atol=1e-5)


def test_tokens_are_choices_that_exist():
    for controller in (Controller(CHOICES), sharpened()):
        tokens, _ = draw(controller, 500)
        assert (tokens >= 0).all()
        assert (tokens < torch.tensor(CHOICES)).all()


def test_a_number_just_below_one_takes_the_last_choice():
    almost_one = torch.full((3, len(CHOICES)), 1 - 2**-53, dtype=torch.float64)
    tokens, _ = sharpened().sample(almost_one)
    assert tokens.tolist() == [[choices - 1 for choices in CHOICES]] * 3


def test_probabilities_of_all_sequences_sum_to_one_and_match_the_frequencies():
    controller = Controller((2, 3, 2), seed=1)
    with torch.no_grad():
        for weights in controller.parameters():
            weights.mul_(8)
    everything = torch.cartesian_prod(*(torch.arange(n) for n in (2, 3, 2)))
    log_probs, _ = controller.evaluate(everything)
    probabilities = log_probs.sum(1).exp()
    assert probabilities.sum().item() == pytest.approx(1, abs=1e-5)
    tokens, _ = draw(controller, 20_000)
    for sequence, probability in zip(everything, probabilities.tolist(), strict=True):
        frequency = (tokens == sequence).all(1).float().mean().item()
        assert frequency == pytest.approx(probability, abs=0.015)


def test_later_decisions_depend_on_earlier_ones():
    log_probs, _ = sharpened().evaluate(torch.tensor([[0] * 6, [1] + [0] * 5]))
    assert not torch.allclose(log_probs[0, 1:], log_probs[1, 1:], atol=1e-3)


def test_entropy_is_that_of_the_choices_that_exist():
    controller = Controller(CHOICES)
    with torch.no_grad():
        controller.head_weight.zero_()
        controller.head_bias.zero_()
    _, entropies = controller.evaluate(torch.zeros(1, len(CHOICES), dtype=torch.int64))
    assert entropies[0].tolist() == pytest.approx([math.log(n) for n in CHOICES], abs=1e-5)


def test_a_new_controller_is_close_to_uniform():
    _, entropies = Controller(CHOICES).evaluate(torch.zeros(1, len(CHOICES), dtype=torch.int64))
    assert entropies.sum().item() > 0.98 * sum(math.log(n) for n in CHOICES)


def test_gradients_are_finite_and_none_go_to_choices_that_do_not_exist():
    controller = Controller(CHOICES)
    tokens, _ = draw(controller, 8)
    log_probs, entropies = controller.evaluate(tokens)
    (log_probs.sum() + entropies.sum()).backward()
    for weights in controller.parameters():
        assert torch.isfinite(weights.grad).all()
    assert (controller.head_weight.grad[~controller.exists] == 0).all()


def test_the_seed_decides_the_weights_and_the_numbers_decide_the_samples():
    first, same, other = (Controller(CHOICES, seed=seed) for seed in (5, 5, 6))
    assert draw(first, 20)[0].equal(draw(same, 20)[0])
    assert first.head_weight.equal(same.head_weight)
    assert not first.head_weight.equal(other.head_weight)


def test_a_sample_does_not_depend_on_what_is_drawn_beside_it():
    controller = sharpened()
    numbers = torch.rand(30, len(CHOICES), generator=torch.Generator().manual_seed(2))
    together, _ = controller.sample(numbers)
    alone = torch.cat([controller.sample(row[None])[0] for row in numbers])
    assert together.equal(alone)


def test_a_sequence_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one choice"):
        Controller(())
    with pytest.raises(ValueError, match="at least one choice"):
        Controller((3, 0))
