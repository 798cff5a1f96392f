"""A training loop of one's own, in PyTorch, with the cohorts of a schedule.

Usage: python train.py SCHEDULE
"""

import sys
from collections import Counter

import torch
from sklearn.datasets import load_digits
from torch import nn

from fedsim.schedules import read_schedule

STEP_SIZE, LOCAL_STEPS = 0.2, 3


def main(file):
    """Train a network with the cohorts of a schedule, and say what came of it."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    schedule = read_schedule(file)
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    # Whoever comes first has the smallest digits.
    shares = torch.argsort(labels, stable=True).chunk(schedule.clients)

    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    state, times = model.state_dict(), Counter()
    for cohort in schedule:  # cohort.clients were asked, cohort.reporting came back
        reports = [trained(model, state, images[shares[client]], labels[shares[client]]) for client in cohort.reporting]
        if reports:
            state = {name: torch.stack([report[name] for report in reports]).mean(dim=0) for name in state}
        times.update(cohort.reporting.tolist())

    model.load_state_dict(state)
    accuracy = (model(images).argmax(dim=1) == labels).float().mean()
    print(f"{len(schedule)} rounds, {sum(times.values())} reports of {len(times)} of {schedule.clients} clients")
    print(f"accuracy {accuracy:.1%}; most reports of a client {max(times.values())}, fewest {min(times.values())}")


def trained(model, state, images, labels):
    """Return the parameters after some steps from `state`."""
    model.load_state_dict(state)
    optimizer = torch.optim.SGD(model.parameters(), STEP_SIZE)
    for _ in range(LOCAL_STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return {name: value.clone() for name, value in model.state_dict().items()}


if __name__ == "__main__":
    main(*sys.argv[1:])
