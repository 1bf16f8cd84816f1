"""Models and GPUs as typed values."""

from capsim.catalog.gpu import Gpu
from capsim.catalog.hugging_face import read_config
from capsim.catalog.loader import gpu_names, load_gpu, load_model, model_names
from capsim.catalog.model import Experts, Model
from capsim.catalog.vision import Vision

__all__ = [
    "Experts",
    "Gpu",
    "Model",
    "Vision",
    "gpu_names",
    "load_gpu",
    "load_model",
    "model_names",
    "read_config",
]
