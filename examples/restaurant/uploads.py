"""What guests and owners upload: real photographs, taken from where scikit-image's wheel keeps them.

They are free of copyright: CC0 by their photographers (coffee: Rachel Michetti, at Pikolo Espresso Bar; chelsea:
Stefan van der Walt; camera: Lav Varshney), or in the public domain (NASA, SpaceX). scikit-image itself is not imported.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from examples.restaurant.photos import Photo
from examples.restaurant.storage import Store

PHOTOGRAPHS = {
    "coffee.png": "Espresso, house blend",
    "chelsea.png": "Chelsea, who owns the place",
    "camera.png": "Our first review",
    "astronaut.png": "A guest from far away",
    "rocket.jpg": "Delivery, the fast kind",
    "hubble_deep_field.jpg": "Seats outside, by night",
}
CUT = "cut-coffee.png"
"""An upload that broke off half way: a real picture's first part."""


def photograph(name: str) -> bytes:
    """One of PHOTOGRAPHS, as its wheel ships it. Raises FileNotFoundError, with what to install."""
    spec = find_spec("skimage")  # not importlib.resources: that would import the package, and numpy with it
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"{name}: scikit-image is not installed; install tenure's extra `restaurant`")
    return Path(spec.origin).with_name("data").joinpath(name).read_bytes()


def cut(data: bytes) -> bytes:
    """A file whose upload broke off: its first two thirds."""
    return data[: len(data) * 2 // 3]


def upload(store: Store, restaurant_id: str, *, with_a_cut_one: bool = False) -> list[Photo]:
    """Put the photographs into the store, as a restaurant's uploads. `with_a_cut_one`: and last one that is broken."""
    files = {name: (photograph(name), title) for name, title in PHOTOGRAPHS.items()}
    if with_a_cut_one:
        files[CUT] = (cut(photograph("coffee.png")), "An upload that broke off")
    photos = []
    for name, (data, title) in files.items():
        key = f"uploads/{restaurant_id}/{name}"
        store.write(key, data)
        photos.append(Photo(key=key, title=title))
    return photos
