"""Image models: denoising, super-resolution, patches; files with Pillow."""

from kernelstream.images import files, noise, patches
from kernelstream.images.denoise import Denoiser
from kernelstream.images.superresolution import SuperResolver, enlarge

__all__ = [
    "Denoiser",
    "SuperResolver",
    "enlarge",
    "files",
    "noise",
    "patches",
]
