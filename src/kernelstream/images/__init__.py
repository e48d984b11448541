"""Image models: denoising, super-resolution, patch and face reconstruction; Pillow input."""

from kernelstream.images import files, noise, patches
from kernelstream.images.denoise import Denoiser
from kernelstream.images.reconstruct import PatchReconstructor
from kernelstream.images.superresolution import SuperResolver, enlarge
from kernelstream.images.whole import ImageReconstructor

__all__ = [
    "Denoiser",
    "ImageReconstructor",
    "PatchReconstructor",
    "SuperResolver",
    "enlarge",
    "files",
    "noise",
    "patches",
]
