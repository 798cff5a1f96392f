"""Differentially private training in jax-privacy, with the cohorts of a fedsim run and the noise that fedsim prices.

A client is one example: its gradient over all its images is clipped. Usage: python train.py WORLD MECHANISM.json
"""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax_privacy.batch_selection import pad_to_multiple_of
from jax_privacy.clipping import clipped_grad
from jax_privacy.matrix_factorization import toeplitz
from jax_privacy.noise_addition import matrix_factorization_privatizer

import fedsim
from fedsim.jax_privacy import ScheduledBatches
from fedsim.learning import build_problem

STEP_SIZE, L2 = 0.5, 0.01


def main(world, mechanism):
    """Train with and without the noise, and say what came of it."""
    run = fedsim.load(world)
    promised = json.loads(Path(mechanism).read_text(encoding="utf-8"))
    scenario, clients = run.scenario, len(run.clients)
    problem = build_problem(
        scenario.learning.problem.kind, scenario.learning.problem.options, clients=clients, seed=scenario.seed
    )
    images, labels = map(np.stack, zip(*(problem.samples_of(client) for client in range(clients)), strict=True))

    coefficients = jnp.array(promised["coefficients"])
    theirs = toeplitz.minsep_sensitivity_squared(
        coefficients,
        min_sep=promised["min_separation"],
        max_participations=promised["most_participations"],
        n=promised["rounds"],
        skip_checks=True,
    )
    print(f"sensitivity: {promised['sensitivity']:.6f} by fedsim, {float(theirs) ** 0.5:.6f} by jax-privacy")
    batches = list(ScheduledBatches(world).batch_iterator(clients))
    assert len(batches) <= promised["rounds"]
    apart = least_gap(batches)
    print(f"{len(batches)} rounds, two of a client at least {apart} apart; promised {promised['min_separation']}")

    for name, stddev in {"without noise": 0.0, "with noise": promised["noise_std"]}.items():
        model = trained(images, labels, batches, scenario.server.cohort, promised, coefficients, stddev)
        figures = problem.evaluate(np.asarray(model, dtype=np.float64).ravel())
        print(f"{name:<14} loss {figures['loss']:.4f}, accuracy {figures['accuracy']:.1%}")
    print(f"epsilon {promised['epsilon']:.2f} at delta {promised['delta']:g}, for {promised['unit']}")


def trained(images, labels, batches, cohort, promised, coefficients, stddev):
    """Return the model after all rounds."""

    def loss(model, data):
        own, truth = data
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(own @ model) * truth, axis=1)) + L2 / 2 * jnp.sum(model**2)

    # The sum is divided by the wanted cohort, however many reports came.
    gradient = jax.jit(clipped_grad(loss, l2_clip_norm=promised["clip"], normalize_by=cohort, keep_batch_dim=False))
    noise = matrix_factorization_privatizer(
        toeplitz.inverse_as_streaming_matrix(coefficients), stddev=stddev / cohort, prng_key=7
    )
    model = jnp.zeros((images.shape[2], labels.shape[2]))
    state, widest = noise.init(model), max(map(len, batches))
    for batch in batches:
        padded = pad_to_multiple_of(batch, widest) if len(batch) else np.full(widest, -1)
        data = (jnp.array(images[padded]), jnp.array(labels[padded]))
        slope = gradient(model, data, is_padding_example=jnp.array(padded < 0))
        slope, state = noise.update(slope, state)
        model = model - STEP_SIZE * slope
    return model


def least_gap(batches):
    """Return the fewest rounds from one report of a client to its next."""
    last, least = {}, len(batches)
    for number, batch in enumerate(batches):
        for client in batch.tolist():
            least = min(least, number - last.get(client, -len(batches)))
            last[client] = number
    return least


if __name__ == "__main__":
    main(*sys.argv[1:])
