"""Images: denoising, super-resolution, reconstruction of patches; files through Pillow."""

from kernelstream.images import files, noise, patches
from kernelstream.images.denoise import Denoiser
from kernelstream.images.reconstruct import PatchReconstructor
from kernelstream.images.superresolution import SuperResolver, enlarge

__all__ = [
    "Denoiser",
    "PatchReconstructor",
    "SuperResolver",
    "enlarge",
    "files",
    "noise",
    "patches",
]
