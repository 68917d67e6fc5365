#!/usr/bin/env python3
"""Makes a data set of emoji for graphpipe: images of 32 x 32 (or --size S, which divides 64) pixels
in three channels and nine categories.

    bench/time_to_accuracy/emoji.py FOLDER [--train twitter] [--test google] [--size 32]

Eight tenths of the emoji are for training and one for validation, as the first vendor draws them; the
last are for the test, as the second does: neither the emoji nor the hand has been seen.

Images and categories come out of the npm packages emoji-datasource-VENDOR, which `npm pack` fetches
to a temporary folder (70 and 82 MB) and which are not installed. Variants by skin tone are left
out: they would stand in the training and the test split alike. The artwork has its own licences.
"""
import argparse
import array
import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tarfile
import tempfile
import zlib

VERSION = "16.0.0"
PIXELS = 64
LEFT_OUT = "Component"
BYTES_A_PIXEL = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by PNG colour type, 8 bits a channel


def unfiltered(raw, height, stride, bytes_a_pixel):
    """PNG's five line filters, undone."""
    lines = []
    before = bytes(stride)
    for y in range(height):
        kind, *line = raw[y * (stride + 1):(y + 1) * (stride + 1)]
        for i, value in enumerate(line):
            left = line[i - bytes_a_pixel] if i >= bytes_a_pixel else 0
            up = before[i]
            corner = before[i - bytes_a_pixel] if i >= bytes_a_pixel else 0
            if kind == 1:
                value += left
            elif kind == 2:
                value += up
            elif kind == 3:
                value += (left + up) // 2
            elif kind == 4:
                guess = left + up - corner
                value += min((left, up, corner), key=lambda near: abs(guess - near))
            line[i] = value & 255
        lines.append(line)
        before = line
    return lines


def chunks(png):
    at = 8
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        yield kind, png[at + 8:at + 8 + size]
        at += 12 + size


def rgb_on_white(png):
    """[y][x]: red, green, blue in 0 to 1; None where the image is of a kind that is not read."""
    palette, alpha, data, head = b"", b"", b"", None
    for kind, body in chunks(png):
        if kind == b"IHDR":
            head = struct.unpack(">IIBBBBB", body)
        elif kind == b"PLTE":
            palette = body
        elif kind == b"tRNS":
            alpha = body
        elif kind == b"IDAT":
            data += body
    width, height, depth, colour, _, _, interlaced = head
    if (width, height, interlaced) != (PIXELS, PIXELS, 0) or (depth != 8 and colour != 3):
        return None
    size = BYTES_A_PIXEL[colour]
    stride = (width * size * depth + 7) // 8
    lines = unfiltered(zlib.decompress(data), height, stride, max(1, size * depth // 8))
    if depth < 8:
        lines = [[line[x * depth // 8] >> (8 - depth - x * depth % 8) & (1 << depth) - 1
                  for x in range(width)] for line in lines]

    def pixel(line, x):
        values = line[x * size:(x + 1) * size]
        if colour == 3:
            index = values[0]
            opaque = alpha[index] if index < len(alpha) else 255
            values = [*palette[3 * index:3 * index + 3], opaque]
        elif colour in (0, 4):
            values = [values[0]] * 3 + values[1:]
        opaque = (values[3] if len(values) > 3 else 255) / 255
        return [value / 255 * opaque + 1 - opaque for value in values[:3]]

    return [[pixel(line, x) for x in range(width)] for line in lines]


def shrunk(image, size):
    """Channels first, means of squares of pixels, from -0.5 to 0.5."""
    step = PIXELS // size
    return [sum(image[y + dy][x + dx][channel] for dy in range(step) for dx in range(step))
            / step ** 2 - 0.5
            for channel in range(3) for y in range(0, PIXELS, step) for x in range(0, PIXELS, step)]


def fetch(vendor, folder):
    name = f"emoji-datasource-{vendor}@{VERSION}"
    done = subprocess.run(["npm", "pack", "--silent", name], cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"emoji: npm pack {name}: {done.stderr.strip()}")
    return pathlib.Path(folder) / done.stdout.split()[-1]


def read(package, vendor, size):
    """{code: (category, image)}"""
    with tarfile.open(package) as tar:
        files = {member.name: member for member in tar.getmembers()}
        emoji = json.load(tar.extractfile(files["package/emoji.json"]))
        found = {}
        for one in emoji:
            member = files.get(f"package/img/{vendor}/{PIXELS}/{one['image']}")
            if one["category"] == LEFT_OUT or member is None:
                continue
            image = rgb_on_white(tar.extractfile(member).read())
            if image is not None:
                found[one["unified"]] = (one["category"], shrunk(image, size))
    return found


def split(seen, unseen):
    """Codes for training, validation and test, of those that both vendors have: the same however
    the packages list them."""
    codes = sorted(seen.keys() & unseen.keys(),
                   key=lambda code: hashlib.sha256(code.encode()).digest())
    tenth = len(codes) // 10
    return codes[:-2 * tenth], codes[-2 * tenth:-tenth], codes[-tenth:]


def write(folder, name, size, sizes, images, labels):
    folder.mkdir(parents=True)
    with open(folder / "image.bin", "wb") as file:
        for image in images:
            array.array("f", image).tofile(file)
    with open(folder / "label.bin", "wb") as file:
        array.array("q", labels).tofile(file)
    manifest = {"format": "graphpipe-dataset", "version": 1, "name": name, "samples": len(labels),
                "split": dict(zip(("train", "validation", "test"), sizes)),
                "fields": [{"name": "image", "dtype": "float32", "shape": [3, size, size],
                            "file": "image.bin"},
                           {"name": "label", "dtype": "int64", "shape": [], "file": "label.bin"}]}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--train", default="twitter")
    parser.add_argument("--test", default="google")
    parser.add_argument("--size", type=int, default=32)
    arguments = parser.parse_args()
    if PIXELS % arguments.size != 0:
        parser.error(f"--size {arguments.size} does not divide {PIXELS}")
    if (arguments.folder / "manifest.json").exists():
        return
    found = []
    for vendor in (arguments.train, arguments.test):
        with tempfile.TemporaryDirectory() as temporary:
            found.append(read(fetch(vendor, temporary), vendor, arguments.size))
    parts = split(*found)
    drawn = [found[0][code] for code in parts[0] + parts[1]] + [found[1][code] for code in parts[2]]
    categories = sorted({category for category, _ in drawn})
    write(arguments.folder, f"emoji by {arguments.train}, tested on {arguments.test}",
          arguments.size, [len(part) for part in parts], [image for _, image in drawn],
          [categories.index(category) for category, _ in drawn])
    print(f"{arguments.folder}: {', '.join(str(len(part)) for part in parts)} images for training, "
          f"validation and test, {len(categories)} categories", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
