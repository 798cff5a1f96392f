"""A phone: gradient steps of softmax regression on its own images, in single precision."""

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedsim.flower import PARTITION, STEP_SCALE, tell_partition
from night_app.world import images_of, run_of

app = ClientApp()
app.query(PARTITION)(tell_partition)


@app.train()
def train(message, context):
    """Train from the server's model, with steps as long as the message says."""
    world, phone = context.run_config["world"], context.node_config["partition-id"]
    images, labels = images_of(world, phone)
    learning = run_of(world).scenario.learning
    scale = message.content["config"].get(STEP_SCALE, 1.0)
    step = np.float32(learning.step_size(message.content["config"]["server-round"] - 1) * scale)
    weights = message.content["arrays"]["weights"].numpy()
    for _ in range(learning.local_steps):
        logits = images @ weights
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        slope = images.T @ (odds / odds.sum(axis=1, keepdims=True) - labels) / np.float32(len(images))
        weights = weights - step * (slope + np.float32(learning.problem.options["l2"]) * weights)
    metrics = MetricRecord({"num-examples": len(images), STEP_SCALE: scale})
    return Message(
        RecordDict({"arrays": ArrayRecord({"weights": Array(weights)}), "metrics": metrics}), reply_to=message
    )
