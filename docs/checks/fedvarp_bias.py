"""Is FedVARP biased by participation? The paper shows it so at R = 8. Both algorithms as published, in numpy.

20 clients (groups of one), the g-th chosen with weight g^-1.5 among those that have waited R rounds. Client i has the
objective |x - c_i|^2 / 2 in two dimensions and takes 5 local gradient steps, so the optimum is the mean of the c_i. Ten
independent runs side by side; the model is averaged over the last half of a run. Takes some seconds.
"""

import numpy as np

CLIENTS, RUNS, ROUNDS = 20, 10, 20_000
LOCAL_STEPS, STEP_SIZE = 5, 0.002
WEIGHTS = np.arange(1, CLIENTS + 1) ** -1.5
# The more often a client is chosen, the further it lies on one side, so that participation matters.
CENTRES = np.random.default_rng(7).normal(size=(CLIENTS, 2)) + np.linspace(2.0, -2.0, CLIENTS)[:, None]
OPTIMUM = CENTRES.mean(axis=0)
ACROSS = np.arange(RUNS)


def participation(separation: int, seed: int) -> np.ndarray:
    """Return who takes part in each round of each run, (ROUNDS, RUNS)."""
    rng = np.random.default_rng(seed)
    ready = np.zeros((RUNS, CLIENTS), dtype=int)
    chosen = np.zeros((ROUNDS, RUNS), dtype=int)
    for t in range(ROUNDS):
        mass = np.where(ready <= t, WEIGHTS, 0.0).cumsum(axis=1)
        chosen[t] = (mass > rng.random((RUNS, 1)) * mass[:, -1:]).argmax(axis=1)
        ready[ACROSS, chosen[t]] = t + 1 + separation
    return chosen


def change(model: np.ndarray, clients: np.ndarray, scale: float | np.ndarray = 1.0) -> np.ndarray:
    """Return Delta_i after K gradient steps of length alpha x scale: for this objective, in closed form."""
    shrink = 1.0 - (1.0 - STEP_SIZE * np.asarray(scale)) ** LOCAL_STEPS
    return (CENTRES[clients] - model) * np.reshape(shrink, (-1, 1))


def distances(chosen: np.ndarray) -> dict[str, np.ndarray]:
    """Return how far each run's mean model of the last half lies from the optimum, by algorithm."""
    models = {name: np.zeros((RUNS, 2)) for name in ("FedAvg", "FedVARP", "Debiased FedAvg")}
    sums = {name: np.zeros((RUNS, 2)) for name in models}
    remembered = np.zeros((RUNS, CLIENTS, 2))
    counts = np.zeros((RUNS, CLIENTS))
    for t, clients in enumerate(chosen):
        models["FedAvg"] += change(models["FedAvg"], clients)
        counts[ACROSS, clients] += 1
        nu = (t + 1) / (CLIENTS * counts[ACROSS, clients])
        models["Debiased FedAvg"] += change(models["Debiased FedAvg"], clients, nu)
        delta = change(models["FedVARP"], clients)
        models["FedVARP"] += remembered.mean(axis=1) + delta - remembered[ACROSS, clients]
        remembered[ACROSS, clients] = delta
        if 2 * t >= ROUNDS:
            for name, model in models.items():
                sums[name] += model
    return {name: np.linalg.norm(2.0 * sums[name] / ROUNDS - OPTIMUM, axis=1) for name in models}


def main() -> None:
    """Print mean and standard deviation over the runs."""
    print("distance of the mean model from the optimum, mean and standard deviation of ten runs")
    for separation in (0, 4, 8, 12):
        far = distances(participation(separation, seed=separation))
        words = ", ".join(f"{name} {each.mean():.4f} ({each.std(ddof=1):.4f})" for name, each in far.items())
        print(f"R = {separation:>2}: {words}")
    print("FedVARP rests where every client weighs the same, whatever the participation: once the remembered")
    print("changes are up to date, its correction vanishes and what is left is their plain mean over everyone.")


if __name__ == "__main__":
    main()
