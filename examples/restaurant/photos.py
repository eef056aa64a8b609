"""Photographs of dishes, made smaller for the web: short tasks, bound by the processor."""

from __future__ import annotations

import io
from pathlib import PurePosixPath

from PIL import Image, ImageOps
from pydantic import BaseModel, ConfigDict

import tenure
from examples.restaurant.base import app
from examples.restaurant.storage import open_store

SIZES = {"thumb": (160, 160), "card": (480, 320), "page": (1600, 1600)}
"""Name of a size -> the box in pixels. A thumb and a card fill their box and are cropped; a page fits into it."""
FORMATS = {"jpg": ("JPEG", {"quality": 82, "progressive": True, "optimize": True}), "webp": ("WEBP", {"quality": 78})}

ACCEPTED = ("JPEG", "PNG", "WEBP")
"""What guests may upload. Pillow reads many more formats, and each is one more parser for strangers to try."""

# What Pillow raises for bytes that are no picture, or not all of one (SyntaxError: EXIF that is none). Found by feeding
# it broken files; whatever else it may raise is retried like any failure.
_UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


class BadImage(Exception):
    """The upload is no picture, or not all of one. Trying again would only fail again."""


class Photo(BaseModel):
    """An uploaded photograph. The picture stays in the store; a task's payload only names it."""

    model_config = ConfigDict(frozen=True)

    key: str
    title: str = ""


@app.task(
    queue="media",
    timeout="2m",
    lease="60s",
    retry=tenure.Retry(max_attempts=5, cap="10m", give_up_on=(BadImage,)),
)
def resize_photo(photo: Photo, restaurant_id: str) -> list[str]:
    """Write the photograph in every size and format; returns the keys written. Raises BadImage."""
    ctx = tenure.context()
    store = open_store()
    picture = decoded(store.read(photo.key), photo.key)
    written = []
    for number, (size, box) in enumerate(SIZES.items(), start=1):
        smaller = resized(picture, box, crop=size != "page")
        for suffix in FORMATS:
            key = f"photos/{restaurant_id}/{PurePosixPath(photo.key).stem}-{size}.{suffix}"
            store.write(key, encoded(smaller, suffix), fence=ctx.fence)
            written.append(key)
        ctx.progress(number / len(SIZES))
    ctx.log.info("%s: %d files", photo.key, len(written))
    return written


def decoded(data: bytes, name: str) -> Image.Image:
    """The picture in `data`, upright and in RGB. Raises BadImage; `name` is for its text."""
    try:
        with Image.open(io.BytesIO(data), formats=ACCEPTED) as picture:
            upright = ImageOps.exif_transpose(picture)  # reads every pixel, so a picture that ends early is found here
            return upright.convert("RGB")
    except _UNREADABLE as error:
        raise BadImage(f"{name}: {len(data):,} bytes that are not a whole picture ({error})") from error


def resized(picture: Image.Image, box: tuple[int, int], *, crop: bool) -> Image.Image:
    """The picture in `box` pixels: filling it, or fitting into it. A small one is not blown up to fit."""
    if crop:
        return ImageOps.fit(picture, box, Image.Resampling.LANCZOS)
    smaller = picture.copy()
    smaller.thumbnail(box, Image.Resampling.LANCZOS)
    return smaller


def encoded(picture: Image.Image, suffix: str) -> bytes:
    """The picture as a file of one of FORMATS."""
    name, options = FORMATS[suffix]
    buffer = io.BytesIO()
    picture.save(buffer, name, **options)
    return buffer.getvalue()
