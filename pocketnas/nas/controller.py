"""The controller: an RNN that makes one decision after the other."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pocketnas.threads import torch_threads

# Logit of a choice that a decision does not have: its probability is exactly zero, and, unlike
# minus infinity, it leaves the entropy and the gradients finite.
_NO_CHOICE = -1e9


class Controller(nn.Module):
    """A policy over sequences of categorical decisions: a one-layer LSTM.

    At each step it reads an embedding of the choice made before (every decision has its own
    embeddings) and a linear head of the decision's own gives the logits of its choices. Zoph et
    al. 2018 ("NASNet"), section 3 and appendix A.1, whose controller MnasNet takes over: one
    layer of 100 units, all weights drawn uniformly from [-0.1, 0.1], which begins close to
    uniform sampling.

    Args:
        choices: how many choices each decision has.
        hidden: units of the LSTM.
        embedding: length of the embeddings.
        init_range: weights begin uniform in [-init_range, init_range].
        seed: decides the first weights.
    """

    def __init__(
        self,
        choices: Sequence[int],
        *,
        hidden: int = 100,
        embedding: int = 32,
        init_range: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not choices or min(choices) < 1:
            raise ValueError(f"every decision needs at least one choice but got {list(choices)}")
        self.choices = tuple(choices)
        decisions, most = len(choices), max(choices)
        # Row 0 is the input of the first step; then come the choices of every decision in turn.
        self.embedding = nn.Embedding(1 + sum(choices), embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        # The heads lie in one tensor, as wide as the widest; `exists` says what is a choice.
        self.head_weight = nn.Parameter(torch.empty(decisions, most, hidden))
        self.head_bias = nn.Parameter(torch.empty(decisions, most))
        counts = torch.tensor(self.choices)
        self.exists: Tensor
        self.first_row: Tensor
        self.register_buffer("exists", torch.arange(most) < counts[:, None], persistent=False)
        self.register_buffer("first_row", 1 + counts.cumsum(0) - counts, persistent=False)
        generator = torch.Generator().manual_seed(seed)
        for weights in self.parameters():
            nn.init.uniform_(weights, -init_range, init_range, generator=generator)

    # With one thread sums are the same however many the process has otherwise.
    @torch_threads(1)
    @torch.no_grad()
    def sample(self, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        """Draw sequences from the policy.

        Args:
            uniforms: (N, decisions) random numbers in [0, 1), the only source of chance here.

        Returns:
            The tokens, (N, decisions) int64, and the log-probability of each, (N, decisions).
        """
        w_ih, w_hh, b_ih, b_hh = self.lstm.all_weights[0]
        state = (torch.zeros(len(uniforms), self.lstm.hidden_size),) * 2
        rows = torch.zeros(len(uniforms), dtype=torch.int64)
        steps = zip(
            self.choices,
            self.first_row.unbind(),
            self.head_weight.mT.unbind(),
            self._biases().unbind(),
            uniforms.mT[:, :, None].unbind(),
            strict=True,
        )
        all_tokens, all_logits = [], []
        for choices, first_row, weight, bias, uniform in steps:
            state = torch.lstm_cell(self.embedding(rows), state, w_ih, w_hh, b_ih, b_hh)
            logits = torch.addmm(bias, state[0], weight)
            # The last bound is 1 up to rounding: a number above it is of the last choice, too.
            tokens = (uniform >= logits.softmax(1).cumsum(1)).sum(1).clamp_max(choices - 1)
            all_tokens.append(tokens)
            all_logits.append(logits)
            rows = first_row + tokens
        tokens = torch.stack(all_tokens, 1)
        log_probs = torch.stack(all_logits, 1).log_softmax(2)
        return tokens, log_probs.gather(2, tokens[:, :, None])[:, :, 0]

    def evaluate(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """What the policy thinks of given sequences; differentiable.

        Args:
            tokens: (N, decisions) int64.

        Returns:
            The log-probability of each token given those before it, and the entropy (in nats) of
            the policy at each decision: both (N, decisions).
        """
        starts = torch.zeros(len(tokens), 1, dtype=torch.int64)
        rows = torch.cat([starts, self.first_row[:-1] + tokens[:, :-1]], 1)
        states, _ = self.lstm(self.embedding(rows))
        logits = torch.einsum("ndh,dch->ndc", states, self.head_weight) + self._biases()
        log_probs = logits.log_softmax(2)
        chosen = log_probs.gather(2, tokens[:, :, None])[:, :, 0]
        return chosen, -(log_probs.exp() * log_probs).sum(2)

    def _biases(self) -> Tensor:
        """The heads' biases, (decisions, most choices), which rule out what does not exist."""
        return self.head_bias.masked_fill(~self.exists, _NO_CHOICE)
