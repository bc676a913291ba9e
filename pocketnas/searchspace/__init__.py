"""What can be built: archs, blocks, spaces and networks; knows no training and no device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketnas.lazy import lazily

if TYPE_CHECKING:
    from pocketnas.searchspace.arch import (
        Arch,
        Head,
        Stem,
        arch_from_dict,
        arch_to_dict,
        candidate_key,
        parse_arch,
    )
    from pocketnas.searchspace.blocks import Block, format_block, parse_block
    from pocketnas.searchspace.builtin import BUILTIN_SPACES
    from pocketnas.searchspace.choices import BlockChoices, Decision
    from pocketnas.searchspace.cost import BlockCost, Cost, count
    from pocketnas.searchspace.network import Network, build_network
    from pocketnas.searchspace.ops import Conv, Op, register_op
    from pocketnas.searchspace.published import PUBLISHED
    from pocketnas.searchspace.resolve import resolve_arch
    from pocketnas.searchspace.space import SearchSpace
    from pocketnas.searchspace.toml_space import load_space, space_from_dict

_MODULES = {
    "Arch": "arch",
    "BUILTIN_SPACES": "builtin",
    "Block": "blocks",
    "BlockChoices": "choices",
    "BlockCost": "cost",
    "Conv": "ops",
    "Cost": "cost",
    "Decision": "choices",
    "Head": "arch",
    "Network": "network",
    "Op": "ops",
    "PUBLISHED": "published",
    "SearchSpace": "space",
    "Stem": "arch",
    "arch_from_dict": "arch",
    "arch_to_dict": "arch",
    "build_network": "network",
    "candidate_key": "arch",
    "count": "cost",
    "format_block": "blocks",
    "load_space": "toml_space",
    "parse_arch": "arch",
    "parse_block": "blocks",
    "register_op": "ops",
    "resolve_arch": "resolve",
    "space_from_dict": "toml_space",
}

__all__ = [
    "BUILTIN_SPACES",
    "PUBLISHED",
    "Arch",
    "Block",
    "BlockChoices",
    "BlockCost",
    "Conv",
    "Cost",
    "Decision",
    "Head",
    "Network",
    "Op",
    "SearchSpace",
    "Stem",
    "arch_from_dict",
    "arch_to_dict",
    "build_network",
    "candidate_key",
    "count",
    "format_block",
    "load_space",
    "parse_arch",
    "parse_block",
    "register_op",
    "resolve_arch",
    "space_from_dict",
]

__getattr__ = lazily(__name__, _MODULES)
