"""The model and the text that both programs train on."""

import random
import re

import torch
from torch import nn

VOCABULARY, LENGTH, WIDTH, LAYERS = 16_384, 256, 1024, 4
SYLLABLES = [first + vowel for first in "bdfghklmnprstvz" for vowel in "aeiou"]
OFTEN = [1 / place for place, _ in enumerate(SYLLABLES, 1)]


class Text(torch.utils.data.Dataset):
    """Lines of a made-up language, split into tokens when they are asked for."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int):
        line = made_up_line(random.Random(index))
        tokens = torch.tensor(split_into_tokens(line)[: LENGTH + 1])
        return tokens[:-1], tokens[1:]


def made_up_line(chance: random.Random) -> str:
    words = ("".join(chance.choices(SYLLABLES, OFTEN, k=2)) for _ in range(LENGTH + 1))
    return " ".join(words).capitalize() + "."


def split_into_tokens(line: str) -> list[int]:
    """The number of each word: its syllables are the digits."""
    tokens = []
    for word in re.findall(r"[a-z]+", line.lower()):
        number = 0
        for syllable in re.findall(r"[a-z][aeiou]", word):
            number = number * len(SYLLABLES) + SYLLABLES.index(syllable)
        tokens.append(number)
    return tokens


class LanguageModel(nn.Module):
    """A transformer that predicts the next word of a line."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                WIDTH, 16, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True
            )
            for _ in range(LAYERS)
        )
        self.head = nn.Linear(WIDTH, VOCABULARY)
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight
        for layer in self.layers:
            x = layer(x, src_mask=self.mask, is_causal=True)
        return self.head(x)
