"""Images: batches from the cache against decoding files, a ResNet-18 step of every method, and memory while streaming.

Batches: 128 images of 64 pixels as numbers, from the cache, and by decoding and resizing their JPEG files with Pillow,
as is done in every epoch without one. The JPEGs have 227 pixels, as those of PACS. Steps: ResNet-18, batches of 128
images of 64 pixels from two environments, the penalty on. Both in processor time, one thread, alternating. Memory: a
folder of 5 GB of photographs is made; then a process of its own decodes it into the cache, takes all images in batches
and scores a model on the test images. Its peak is the system's number (Linux). Layout: an ERM step of ResNets of
several widths in the ordinary layout, over one in channels-last, which the model uses from 8 channels on.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import numpy as np
import torch
from harness import METHODS, Options, in_turns, show
from PIL import Image

from invariance.core.batch import Batch
from invariance.core.environment import Environment
from invariance.core.families import Bernoulli
from invariance.core.inputs import Pixels, floats
from invariance.core.seeding import generator
from invariance.data.folder import Folder
from invariance.data.images.image_files import listed, pictures, read
from invariance.evaluation.scores import score
from invariance.methods.base import Method
from invariance.models.resnet import Features, ResNet
from invariance.recipes.presets import recipe
from invariance.training.loop import Training

BATCH, SIZE = 128, 64
LARGE = (1200, 900)  # 3.2 MB as a bitmap
SEEN = 384


def photograph(size: tuple[int, int], seed: int) -> Image.Image:
    """Smooth shapes with some grain, about as large as a JPEG as a photograph is."""
    random = np.random.default_rng(seed)
    coarse = Image.fromarray(random.integers(0, 256, (12, 12, 3), dtype=np.uint8)).resize(size)
    grain = random.integers(0, 12, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(np.asarray(coarse) // 2 + grain)


def batches(folder: Path, options: Options) -> None:
    (folder / "jpegs").mkdir()
    for i in range(4 * BATCH):
        photograph((227, 227), i).save(folder / "jpegs" / f"{i:04d}.jpg", quality=90)
    files = listed(folder, ["jpegs"])
    pixels = Pixels.of(pictures(files, SIZE, title="benchmark").images)
    draw = generator(0, "rows")

    def rows() -> torch.Tensor:
        return torch.randint(len(files), (BATCH,), generator=draw)

    def decoded() -> object:
        images = [read(folder / files.names[i], SIZE) for i in rows().tolist()]
        return floats(torch.from_numpy(np.stack(images)))

    steps = {"cache": lambda: floats(pixels[rows()]), "decoding": decoded}
    times = in_turns(steps, rounds=2 if options.quick else 9)
    found = [
        {"method": name, "ms": times.ms(name), "images/s": 1e3 * BATCH / times.ms(name), "times the cache": ratio}
        for name in times.seconds
        for ratio in [times.ratio(name, "cache")]
    ]
    note = "Aim: decoding takes at least 20 times as long as the cache."
    show("Batches of 128 images", found, note, options, "image-batches")


def training(objective: Method, gradient: str, batch: int, size: int, width: int = 64) -> Training:
    """A run half-way between the switch and its end."""
    random = generator(0, "images")
    data = []
    for name in "ab":
        x = torch.randint(256, (batch, 3, size, size), generator=random).to(torch.uint8)
        data.append(Environment(name, x, torch.randint(2, (batch,), generator=random)))
    changes = {"batch_size": batch, "gradient": gradient, "lr": 1e-5}
    how = recipe("small-batch", objective.preferences, changes=changes)
    run = Training(ResNet(width=width).build((3, size, size), 1), objective, data, how, Bernoulli(), 0)
    run.step = (run.switch + run.steps) // 2
    return run


def steps(options: Options) -> None:
    batch, size = (32, 32) if options.quick else (BATCH, SIZE)
    runs = {name: training(objective, "plain", batch, size) for name, objective in METHODS.items()}
    runs["erm, sam"] = training(METHODS["erm"], "sam", batch, size)
    times = in_turns({name: run.advance for name, run in runs.items()}, rounds=2 if options.quick else 5, repeats=1)
    titles = {name: objective.title for name, objective in METHODS.items()} | {"erm, sam": "ERM with SAM"}
    found = [{"method": titles[name], "ms": times.ms(name), "times ERM": times.ratio(name, "erm")} for name in titles]
    note = "Aims: at most 1.15 times ERM with any penalty, 2.2 times with SAM."
    show(f"A step of ResNet-18, {batch} images of {size} pixels", found, note, options, "image-methods")


def layout(options: Options) -> None:
    widths, batch, size = ((8, 16), 32, 32) if options.quick else ((8, 16, 32, 64), BATCH, SIZE)
    found = []
    for width in widths:
        runs = {}
        for name, memory_format in (("channels-last", torch.channels_last), ("ordinary", torch.contiguous_format)):
            runs[name] = training(METHODS["erm"], "plain", batch, size, width)
            cast("Features", runs[name].model.features).layout = memory_format
        times = in_turns({name: run.advance for name, run in runs.items()}, rounds=3 if options.quick else 7)
        row = {"width": width, "channels-last, ms": times.ms("channels-last"), "ordinary, ms": times.ms("ordinary")}
        found.append(row | {"ordinary over channels-last": times.ratio("ordinary", "channels-last")})
    show("Layout of images", found, "Aim: channels-last is not slower at any width.", options, "image-layout")


def fill(folder: Path, gigabytes: float) -> int:
    """Write bitmaps of eight photographs until there are so many; their number is told."""
    size, made = 0, 0
    contents = []
    for seed in range(8):
        photograph(LARGE, seed).save(place := folder / "one.bmp")
        contents.append(place.read_bytes())
        place.unlink()
    while size < gigabytes * 1e9:
        place = folder / "tree" / f"domain{made % 2}" / f"class{made // 2 % 2}" / f"{made:05d}.bmp"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(contents[made % len(contents)])
        size, made = size + len(contents[0]), made + 1
    return made


def stream(path: str) -> None:
    """What the measured process does."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    benchmark = Folder(path=path, image_size=SEEN).load(0)
    built = time.perf_counter() - start
    whole = Batch.of(benchmark.train, benchmark.family)
    start = time.perf_counter()
    order = torch.randperm(len(whole.y), generator=generator(0, "order"))
    total = sum(float(floats(whole.take(rows.sort().values, (len(rows),)).x).mean()) for rows in order.split(32))
    epoch = time.perf_counter() - start
    model = ResNet(width=8).build(benchmark.input_shape, benchmark.family.outputs)
    model.slice = 16
    score(model, benchmark.test, benchmark.family)
    print(json.dumps({"built": built, "epoch": epoch, "total": total, "peak": peak()}))


def peak() -> float:
    """MB of memory at the most; getrusage would count what the parent held when it started this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def memory(folder: Path, options: Options) -> None:
    gigabytes = 0.3 if options.quick else 5.0
    images = fill(folder, gigabytes)
    command = [sys.executable, __file__, "--stream", str(folder / "tree")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    cached = images * 3 * SEEN**2 / 1e9
    row = {"files, GB": gigabytes, "images": images, "cache, GB": cached, "first pass, s": found["built"]}
    row |= {"an epoch, s": found["epoch"], "peak, MB": found["peak"]}
    note = "Aim: a peak under 1,000 MB, whatever the folder holds."
    show("Streaming a folder of images", [row], note, options, "image-streaming")


def main() -> None:
    if sys.argv[1:2] == ["--stream"]:
        stream(sys.argv[2])
        return
    options = Options.parse(__doc__)
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        os.environ["INVARIANCE_CACHE"] = f"{folder}/cache"
        batches(Path(folder), options)
        steps(options)
        layout(options)
        memory(Path(folder), options)


if __name__ == "__main__":
    main()
