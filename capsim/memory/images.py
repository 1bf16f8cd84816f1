"""What an engine holds to see: the vision encoder's weights, and the images that its profiling run encodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from capsim.catalog.vision import Vision


@dataclass(frozen=True)
class Images:
    """Images that may be in flight at once.

    vLLM encodes as many images of the largest size as a step may take when it profiles its memory
    (``MultiModalBudget`` of vllm/multimodal/encoder_budget.py, ``profile_run`` of the model runner): their pixels and
    the encoder's outputs are still held when the language model's peak comes, so the KV cache loses them. The start-up
    logs of Gemma 3 4B and 12B and of Mistral Small 3.1 under vLLM 0.19.0 (llm-d-planner, as of `Workspace`) show them
    to 0.06 GiB. The encoder runs before the language model, so its own activations count only where they are more.

    Attributes:
        vision: the model's encoder.
        at_once: images of the largest size that a step encodes.
    """

    vision: Vision
    at_once: int

    @classmethod
    def of(
        cls,
        vision: Vision,
        *,
        per_prompt: int,
        max_model_len: int,
        max_num_seqs: int,
        max_num_batched_tokens: int,
    ) -> Images:
        """Images of a step: as many as its encoder's budget of tokens allows, which holds one at least.

        Args:
            vision: the model's encoder.
            per_prompt: most images of one prompt (``limit_mm_per_prompt``).
            max_model_len: longest sequence, tokens.
            max_num_seqs: most sequences at once.
            max_num_batched_tokens: most tokens in a step.
        """
        tokens = vision.image_tokens
        of_prompt = max(1, min(per_prompt, max_model_len // tokens))
        budget = max(max_num_batched_tokens, tokens)
        return cls(vision, max(1, min(budget // tokens, max_num_seqs * of_prompt)))

    def weight_bytes(self, ranks: int) -> int:
        """Bytes of the encoder on one rank, at 16 bits whatever the language model's dtype."""
        return 2 * (self.vision.split_parameters // ranks + self.vision.replicated_parameters)

    @property
    def cache_bytes(self) -> int:
        """Bytes of the encoder's outputs, which are kept until their tokens are computed."""
        return 2 * self.at_once * self.vision.image_tokens * self.vision.token_elements

    @property
    def pixel_bytes(self) -> int:
        """Bytes of the images as the encoder reads them."""
        return 2 * self.at_once * self.vision.image_elements

    def activation_bytes(self, ranks: int) -> int:
        """Peak of the encoder's own activations on one rank, its MLP split over the ranks; no log shows it."""
        return 2 * self.at_once * self.vision.layer_elements // ranks

    def sizes(self, ranks: int, activation: int) -> Iterator[tuple[str, int, str, str]]:
        """Name, bytes, tag and note of what one rank holds.

        Args:
            ranks: that share each layer.
            activation: bytes of the language model's peak.
        """
        many = f"{self.at_once} images" if self.at_once > 1 else "1 image"
        yield "vision encoder", self.weight_bytes(ranks), "derived", "its weights, bfloat16"
        note = f"outputs for {many} of {self.vision.image_tokens} tokens"
        yield "encoder cache", self.cache_bytes, "assumed", note
        yield "pixels", self.pixel_bytes, "assumed", f"of {many}"
        more = self.activation_bytes(ranks) - activation
        if more > 0:
            yield "encoder activations", more, "assumed", "what they need beyond the activations above"
