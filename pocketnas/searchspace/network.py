"""Build the torch network that an arch describes."""

from __future__ import annotations

import torch
from torch import nn

from pocketnas.errors import ArchError
from pocketnas.searchspace.arch import Arch
from pocketnas.searchspace.cost import MAX_PARAMS, count
from pocketnas.searchspace.layers import Layer, activation, conv
from pocketnas.searchspace.plan import plan_layers


class Network(nn.Module):
    """The network of an arch: stem, blocks, head, mean over the image, classifier.

    Attributes:
        arch: The description that it was built from.
        input_shape: (H, W, C) that it is meant for; it accepts other sizes.
        classes: Number of logits.
    """

    def __init__(
        self,
        arch: Arch,
        input_shape: tuple[int, int, int],
        classes: int,
        dropout: float,
        bn_momentum: float,
    ) -> None:
        super().__init__()
        self.arch = arch
        self.input_shape = input_shape
        self.classes = classes
        stem, head = arch.stem, arch.head
        self.conv_stem = conv(input_shape[2], stem.channels, 3, stem.stride)
        self.bn1 = nn.BatchNorm2d(stem.channels, momentum=bn_momentum)
        self.act1 = activation(stem.activation)
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(*(Layer(layer, bn_momentum) for layer in layers))
                for layers in plan_layers(stem.channels, arch.blocks)
            )
        )
        self.conv_head = conv(arch.blocks[-1].channels, head.channels, 1)
        self.bn2 = nn.BatchNorm2d(head.channels, momentum=bn_momentum)
        self.act2 = activation(head.activation)
        self.global_pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(head.channels, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits (N, classes) of normalized images (N, C, H, W)."""
        x = self.act1(self.bn1(self.conv_stem(images)))
        x = self.blocks(x)
        x = self.act2(self.bn2(self.conv_head(x)))
        x = self.dropout(self.flatten(self.global_pool(x)))
        return self.classifier(x)  # type: ignore[no-any-return]


def build_network(
    arch: Arch,
    input_shape: tuple[int, int, int],
    classes: int,
    dropout: float = 0.0,
    *,
    bn_momentum: float = 0.1,
) -> Network:
    """Build an arch with fresh weights, drawn from torch's global random generator.

    Args:
        arch: What to build.
        input_shape: (H, W, C) of the images.
        classes: Number of logits.
        dropout: Fraction dropped before the classifier (MnasNet's full training: 0.2).
        bn_momentum: How far one batch moves the running statistics, in torch's sense. The default
            suits runs of a hundred steps; MnasNet's full training has 0.01.

    Raises:
        ArchError: A value is out of its range, or the network would be far too large.
    """
    if not 0 <= dropout < 1:
        raise ArchError(f"dropout must be from 0 to below 1 but got {dropout}")
    if not 0 < bn_momentum <= 1:
        raise ArchError(f"the momentum of batch norm must be in (0, 1] but got {bn_momentum}")
    params = count(arch, input_shape, classes).params
    if params > MAX_PARAMS:
        raise ArchError(
            f"arch {arch.name or arch.strings[0] + ',...'} has {params:,} parameters, more than "
            f"the {MAX_PARAMS:,} that are built: use fewer channels or layers"
        )
    network = Network(arch, input_shape, classes, dropout, bn_momentum)
    network.apply(_initialize)
    return network


def _initialize(module: nn.Module) -> None:
    """MnasNet's: He et al. 2015 over a convolution's outputs, and a classifier near zero."""
    if isinstance(module, nn.Conv2d):
        kernel = module.kernel_size[0] * module.kernel_size[1]
        fan_out = kernel * module.out_channels // module.groups
        nn.init.normal_(module.weight, 0.0, (2.0 / fan_out) ** 0.5)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, 0.0, 0.01)
        nn.init.zeros_(module.bias)
