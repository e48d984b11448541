"""Images: denoising, super-resolution, reconstruction of patches."""

from kernelstream.images.denoise import Denoiser
from kernelstream.images.superresolution import SuperResolver

__all__ = ["Denoiser", "SuperResolver"]
