"""Classes of devices: how fast each trains, its memory and battery, and the power that it draws.

Speed. `ms` is the time of one pass of MobileNet-V2 (224 x 224 pixels, batch 1) as the ncnn project measured it
(github.com/Tencent/ncnn, benchmark/README.md: the fastest setting of threads on the CPU; of the Jetsons, on the GPU). A
training step on a sample is taken for three passes: one forward, and a backward one that costs twice as much. For
another model a scenario gives the cost of a sample beside this.

Memory and battery are those of the device that stands for the class. Memory of the phones from 2016 to 2019 is as AI
Benchmark lists it (January 2020, the copy in github.com/PKU-Chengxu/FLASH; its CPU scores put these phones in the same
order but for the snapdragon-675); the rest is from the makers' data sheets, batteries at 3.85 V.

Power while training. Phones: the CPUs in the table of devices of Kim and Wu, *AutoFL* (MICRO 2021), 5.5 W where cores
are Cortex-A73 or later, else 3.6 W. Raspberry Pis: 5 V times the typical current of a board in the maker's
documentation. Jetsons: the maker's power mode. Phones receive with 98 mA and send with 470 mA at 3.7 V, an entry of
Android's power profiles; boards draw on the network what they draw while they train.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from fedsim.common.hints import did_you_mean

_PASSES = 3.0
_CELL_V, _RECEIVE_W, _SEND_W = 3.85, 0.098 * 3.7, 0.470 * 3.7
_LISTED = """
dimensity-9300       | vivo X100           |  2.80 | 12  | 5000 | 5.5
snapdragon-8-gen-2   | Galaxy S23          |  3.23 | 8   | 3900 | 5.5
snapdragon-855-plus  | OnePlus 7T          |  4.68 | 8   | 3800 | 5.5
snapdragon-888       | Galaxy S21          |  7.63 | 8   | 4000 | 5.5
snapdragon-765g      | Pixel 5             | 13.27 | 8   | 4080 | 5.5
snapdragon-821       | Pixel               | 22.38 | 4   | 2770 | 3.6
kirin-970            | Huawei P20          | 24.49 | 4   | 3400 | 5.5
snapdragon-675       | Redmi Note 7 Pro    | 26.08 | 4   | 4000 | 5.5
snapdragon-835       | Pixel 2             | 29.41 | 4   | 2700 | 5.5
snapdragon-810       | Nexus 6P            | 33.56 | 3   | 3450 | 3.6
snapdragon-660       | Xiaomi Mi A2        | 34.54 | 4   | 3010 | 5.5
iphone-5s            | iPhone 5S           | 57.47 | 1   | 1560 | 3.6
snapdragon-410       | Moto G (2015)       | 82.00 | 1   | 2470 | 3.6
raspberry-pi-5       | Raspberry Pi 5      | 10.52 | 8   | 0    | 4.0
raspberry-pi-4       | Raspberry Pi 4 B    | 61.88 | 4   | 0    | 3.0
raspberry-pi-3       | Raspberry Pi 3 B+   | 111.68| 1   | 0    | 2.5
raspberry-pi-zero-2  | Raspberry Pi Zero 2 | 147.39| 0.5 | 0    | 1.75
jetson-nano          | Jetson Nano         | 12.99 | 4   | 0    | 10
jetson-tx2           | Jetson TX2 NX       |  6.76 | 4   | 0    | 15
jetson-orin-nano     | Jetson Orin Nano    |  3.83 | 8   | 0    | 15
"""
"""Class, device that stands for it, ms of a pass, GB of memory, mAh of the battery (0: none), W while training."""


class DeviceClass(NamedTuple):
    """What is known of a class of devices."""

    name: str
    stands_for: str
    step_s: float  # seconds of a training step on one sample
    memory: float  # bytes
    battery_wh: float  # 0 where it has none
    down_w: float  # W while it downloads
    train_w: float
    up_w: float


def _read(line: str) -> DeviceClass:
    name, stands_for, *figures = (cell.strip() for cell in line.split("|"))
    ms, memory, charge, train_w = map(float, figures)
    network = (_RECEIVE_W, _SEND_W) if charge else (train_w, train_w)
    return DeviceClass(
        name, stands_for, _PASSES * ms / 1000, 1e9 * memory, charge / 1000 * _CELL_V, network[0], train_w, network[1]
    )


DEVICE_CLASSES: Final = tuple(map(_read, _LISTED.strip().splitlines()))
PLACES: Final[Mapping[str, int]] = {each.name: place for place, each in enumerate(DEVICE_CLASSES)}
"""The place of each class by its name, as populations number them."""


def check_device_class(name: str) -> str:
    """Return the name of a class of devices; a `ValueError` if there is none of that name."""
    if name not in PLACES:
        raise ValueError(f"unknown class of devices {name!r}{did_you_mean(name, PLACES, or_known=True)}")
    return name
