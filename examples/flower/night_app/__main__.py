"""The same in this process, without Ray and SuperLink: ``python -m night_app WORLD``."""

import sys
from pathlib import Path
from types import SimpleNamespace

from fedsim.flower import InProcessGrid
from night_app import client, server
from night_app.world import run_of

if __name__ == "__main__":
    config = {"world": str(Path(sys.argv[1]).absolute())}
    grid = InProcessGrid(client.app, len(run_of(config["world"]).clients), config)
    server.main(grid, SimpleNamespace(run_config=config))
