"""
A first stream
==============

Rows come in blocks, each is seen once and then gone. What stays is a model of fixed size that can
place new rows on the components at any time, say how good it is, and be put into a file to go on
tomorrow.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kernelstream import StreamingKernelPCA, load, metrics, plot

# %%
# The rows
# --------
# scikit-learn's 1,797 handwritten digits, 64 pixels in [0, 1] each, shuffled. The last 300 are kept
# aside. The rest plays the stream: sixty blocks, as they might come out of a file or a socket.

digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits.data))
X, label = digits.data[order] / 16.0, digits.target[order]
blocks, unseen = np.array_split(X[:1497], 60), X[1497:]

# %%
# Learning
# --------
# ``partial_fit`` takes blocks of any length, also single rows; the same rows in the same order give
# the same model, bit for bit, however they are cut. Nothing has to be chosen beyond the number of
# components and the size of the basis: the width of the kernel comes from the first rows.
#
# Each block is scored before it is learned: its error is that of rows the model has not seen.

model = StreamingKernelPCA(n_components=10, basis=100, random_state=0).partial_fit(blocks[0])
rows, errors = [], []
for block in blocks[1:]:
    rows.append(model.n_samples_seen_)
    errors.append(model.reconstruction_error(block).mean())
    model.partial_fit(block)
print(f"{model.n_samples_seen_:,} rows seen, {len(model.basis_points_)} points kept")
print(f"kernel {model.kernel_}")
print(f"10 components explain {model.explained_variance_ratio_.sum():.1%} of the variance")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.plot(rows, errors, "o-", ms=3)
left.set(xlabel="rows learned", ylabel="mean error", ylim=(0, None))
left.set_title("Error of rows before they are learned", loc="left")
plot.basis(model, image_shape=(8, 8), ax=right).images[0].set_cmap("gray_r")
right.set_title("What is kept: 100 points", loc="left")
plt.show()

# %%
# The error falls within the first hundred rows and then stays: ten components cannot do more. The
# points that are kept are no rows of the stream; each is the mean of some that look alike.
#
# New rows
# --------
# ``transform`` places rows on the components, also rows that the model has never seen. The labels
# were not used: they only colour the picture.

plot.embedding(model, unseen, color=label[1497:], s=22)
plt.gca().set_title("300 digits that were not learned", loc="left")
plt.show()

# %%
# How good is it?
# ---------------
# So few rows fit into memory, so exact kernel PCA can be asked. Of what the ten best components
# would capture, the stream has nearly all.

print(f"captured: {metrics.captured_variance(model, X[:1497]):.1%} of exact kernel PCA")

# %%
# Tomorrow
# --------
# A file holds the whole state, with the rows that still wait for their block to be full. A model
# that was saved and loaded goes on exactly as if nothing had happened.

path = Path(tempfile.mkdtemp()) / "digits.safetensors"
model.save(path)
again = load(path)
again.partial_fit(unseen)
model.partial_fit(unseen)
assert np.array_equal(again.transform(X), model.transform(X))
print(f"{path.stat().st_size / 1e6:.1f} MB on disk, {again.n_samples_seen_:,} rows seen")

# %%
# **Learnt:** a stream of digits fits into a hundred points; one pass gives almost all that exact
# kernel PCA of all rows would give; and a stream can be interrupted at any row.
