"""Photographs: every size is made of real ones, and what is no whole picture is a BadImage and nothing else."""

from __future__ import annotations

import contextlib
import io

import hypothesis
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from PIL import Image

from examples.restaurant import uploads
from examples.restaurant.app import app
from examples.restaurant.photos import ACCEPTED, BadImage, Photo, decoded, resize_photo
from examples.restaurant.storage import NoSuchFile, StaleFence, Store
from tests.examples.conftest import FakeAttempt, running


@pytest.mark.parametrize("name", uploads.PHOTOGRAPHS)
def test_a_photograph_is_made_in_every_size_and_format(store: Store, name: str) -> None:
    """Real photographs, two PNGs without colour among them; what is written is what the result names."""
    store.write("uploads/r7/x/" + name, uploads.photograph(name))
    written = resize_photo(Photo(key="uploads/r7/x/" + name), "r7")
    assert sorted(written) == store.keys("photos/r7")
    sizes = {key.partition("-")[2]: Image.open(io.BytesIO(store.read(key))) for key in written}
    assert {size: (picture.format, picture.mode) for size, picture in sizes.items()} == {
        f"{size}.{suffix}": (kind, "RGB")
        for size in ("thumb", "card", "page")
        for suffix, kind in (("jpg", "JPEG"), ("webp", "WEBP"))
    }
    assert sizes["thumb.jpg"].size == (160, 160)
    assert sizes["card.webp"].size == (480, 320)
    original = Image.open(io.BytesIO(uploads.photograph(name)))
    assert sizes["page.jpg"].size == original.size, "none of them is larger than the box, and none is blown up"


def test_a_large_picture_is_fitted_into_its_box_and_turned_upright(store: Store) -> None:
    """A camera held sideways says so in EXIF; browsers would turn the original, so the copies must be turned too."""
    exif = Image.Exif()
    exif[0x0112] = 6  # Orientation: turn by 90 degrees
    buffer = io.BytesIO()
    Image.new("RGB", (4000, 2000), "teal").save(buffer, "JPEG", exif=exif)
    store.write("uploads/r1/wide.jpg", buffer.getvalue())
    resize_photo(Photo(key="uploads/r1/wide.jpg"), "r1")
    assert Image.open(io.BytesIO(store.read("photos/r1/wide-page.jpg"))).size == (800, 1600)


def test_an_upload_that_broke_off_is_a_bad_image(store: Store) -> None:
    photo = uploads.upload(store, "r7", with_a_cut_one=True)[-1]
    with pytest.raises(BadImage, match=r"uploads/r7/cut-coffee.png: [\d,]+ bytes that are not a whole picture"):
        resize_photo(photo, "r7")
    assert store.keys("photos") == [], "nothing is written of a picture that is not whole"


def test_a_bad_image_is_given_up_on_and_a_missing_upload_is_tried_again(store: Store) -> None:
    """So the one becomes a dead letter at once, and the other has time to arrive."""
    retry = app.tasks["resize_photo"].retry
    assert not retry.retriable(BadImage())
    with pytest.raises(NoSuchFile) as missing:
        resize_photo(Photo(key="uploads/r7/late.png"), "r7")
    assert retry.retriable(missing.value)


def test_a_late_attempt_overwrites_nothing(store: Store) -> None:
    photo = uploads.upload(store, "r7")[0]
    with running(FakeAttempt(fence=2)):
        resize_photo(photo, "r7")
    before = {key: store.read(key) for key in store.keys("photos")}
    with running(FakeAttempt(fence=1)), pytest.raises(StaleFence):
        resize_photo(photo, "r7")
    assert {key: store.read(key) for key in store.keys("photos")} == before


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF"])
def test_a_format_that_is_not_accepted_is_a_bad_image(kind: str) -> None:
    with pytest.raises(BadImage):
        decoded(small(kind), "upload")


@pytest.mark.parametrize("kind", ACCEPTED)
def test_a_picture_whose_exif_is_garbage_is_a_bad_image_or_read_without_it(kind: str) -> None:
    """Pillow raises SyntaxError for it in some formats."""
    buffer = io.BytesIO()
    Image.open(io.BytesIO(small(kind))).save(buffer, kind, exif=b"Exif\0\0garbage")
    with contextlib.suppress(BadImage):
        assert decoded(buffer.getvalue(), "upload").mode == "RGB"


def small(kind: str) -> bytes:
    """A photograph, small, with EXIF."""
    picture = Image.open(io.BytesIO(uploads.photograph("coffee.png")))
    picture.thumbnail((64, 64))
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    picture.save(buffer, kind, exif=exif)
    return buffer.getvalue()


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow warns of EXIF that it can only read in part
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("kind", ACCEPTED)
@given(data=st.data())
@settings(max_examples=200)
def test_whatever_the_bytes_it_is_a_picture_or_a_bad_image(kind: str, data: st.DataObject) -> None:
    """A file cut anywhere and with a few bytes changed: Pillow's many errors all become the one that is named."""
    whole = bytearray(small(kind))
    for _ in range(data.draw(st.integers(0, 5))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(whole)))
    try:
        picture = decoded(bytes(whole[:end]), kind)
    except BadImage:
        hypothesis.event("bad image")
    else:
        hypothesis.event("picture")
        assert picture.mode == "RGB"
