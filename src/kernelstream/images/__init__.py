"""Images: denoising, super-resolution, reconstruction of patches."""

from kernelstream.images.denoise import Denoiser

__all__ = ["Denoiser"]
