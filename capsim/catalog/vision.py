from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Vision:
    """The encoder that turns images into tokens of the prompt, and the projector to the language model's width.

    Sizes are elements. Those of an image are of the largest one that the model takes at once.

    Attributes:
        split_parameters: weights of the matrices that tensor parallelism shares out.
        replicated_parameters: weights that every rank holds: embeddings of patches and places, norms.
        image_tokens: tokens that an image takes in the prompt, and in the KV cache.
        token_elements: elements of the encoder's output for one of these tokens.
        image_elements: elements of the pixels.
        layer_elements: elements that a layer of the encoder holds of all patches at its widest, in its MLP.
    """

    split_parameters: int
    replicated_parameters: int
    image_tokens: int
    token_elements: int
    image_elements: int
    layer_elements: int

    @property
    def parameters(self) -> int:
        """All weights of encoder and projector, elements."""
        return self.split_parameters + self.replicated_parameters
