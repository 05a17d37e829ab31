"""
Which noise costs the least?
============================

The answer must be within theta of the truth with probability 95 %. Every row of the ranking is tuned to that and
accounted for exactly, and no noise can go below the floor.
"""

import matplotlib.pyplot as plt

from epsworth import noise

ranked = noise.cheapest(5, confidence=0.95, sensitivity=1, delta=1e-6)
print(ranked)

# %%
# The same for several widths; the floor is shaded.

widths = [1, 3, 10]
answers = {theta: noise.cheapest(theta, confidence=0.95, sensitivity=1, delta=1e-6) for theta in widths}
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, style in {"gaussian": "s:", "laplace": "^--", "pb_gaussian": "d-.", "staircase": "o-"}.items():
    axes.plot(widths, [answers[theta].named(name).epsilon for theta in widths], style, label=name)
axes.fill_between(widths, [answers[theta].floor for theta in widths], 1e-2, color="0.85", label="no noise at all")
axes.set(xscale="log", yscale="log", xlabel="theta, in sensitivities", ylabel="epsilon", ylim=(0.05, 10))
axes.set_xticks(widths, widths)
axes.legend()
plt.show()
