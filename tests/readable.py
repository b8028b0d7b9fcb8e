"""Whether a figure can be read: on a telephone, in grey, with nothing cut off."""

from itertools import combinations

import numpy as np

from later import Later

backend_agg = Later("matplotlib.backends.backend_agg")
container = Later("matplotlib.container")
labels = Later("matplotlib.text")
transforms = Later("matplotlib.transforms")


def can_be_read(figure, *, is_map=False):
    """Draw it once, and look at it in every way; a map has no axes to label."""
    canvas = backend_agg.FigureCanvasAgg(figure)
    canvas.draw()
    is_not_blank(canvas)
    if not is_map:
        is_labelled(figure)
    is_told_apart_in_grey(figure)
    texts = letters(figure, canvas.get_renderer())
    is_not_cut_off(figure, texts)
    is_read_on_a_telephone(figure, texts)
    is_apart(figure, texts)


def is_not_blank(canvas):
    picture = np.asarray(canvas.buffer_rgba())[..., :3].mean(axis=2)
    assert (picture < 128).mean() > 0.002
    assert picture.std() > 8


def is_labelled(figure):
    for axis in figure.axes:
        below = axis.get_shared_x_axes().get_siblings(axis)
        ticks = [one.get_text() for one in axis.get_xticklabels()]
        assert any(one.get_xlabel() for one in below) or "all" in ticks
        named = [one.get_text() for one in axis.get_yticklabels()]
        assert (
            axis.get_ylabel()
            or len(named) >= len(axis.patches) > 0
            or any(one[:1].isalpha() for one in named)
        )


def letters(figure, renderer):
    """Return every text that is seen, with the box that it takes."""
    unseen = set()
    for axis in figure.axes:
        for along in (axis.xaxis, axis.yaxis):
            # An axis has labels for ticks beyond its ends, too.
            low, high = sorted(along.get_view_interval())
            for tick in (*along.get_major_ticks(), *along.get_minor_ticks()):
                if not low <= tick.get_loc() <= high:
                    unseen |= {tick.label1, tick.label2}
    texts = [one for one in figure.findobj(labels.Text) if one.get_visible()]
    seen = [one for one in texts if one.get_text().strip() and one not in unseen]
    return {one: one.get_window_extent(renderer) for one in seen}


def is_not_cut_off(figure, texts):
    width, height = figure.canvas.get_width_height()
    for text, box in texts.items():
        where = f"{text.get_text()!r} at {box}"
        assert -0.5 <= box.x0 < box.x1 <= width + 0.5, where
        assert -0.5 <= box.y0 < box.y1 <= height + 0.5, where


def is_apart(figure, texts):
    """Title and caption are written over nothing, nor is one tick over another."""
    for one in figure.texts:
        for other in texts:
            over = transforms.Bbox.intersection(texts[one], texts[other])
            assert one is other or over is None, (one.get_text(), other.get_text())
    for axis in figure.axes:
        for along in (axis.xaxis, axis.yaxis):
            ticks = (*along.get_major_ticks(), *along.get_minor_ticks())
            names = [one.label1 for one in ticks if one.label1 in texts]
            for one, other in combinations(names, 2):
                over = transforms.Bbox.intersection(texts[one], texts[other])
                assert over is None, (one.get_text(), other.get_text())


def is_read_on_a_telephone(figure, texts):
    """Nine pixels of 390 across, which is how wide a telephone's page is."""
    width = figure.get_size_inches()[0]
    for text in texts:
        assert text.get_fontsize() / 72 * 390 / width >= 8.99, text.get_text()


def is_told_apart_in_grey(figure):
    """By line, mark or hatch: colours of the same brightness would not do."""
    for axis in figure.axes:
        named = [one for one in axis.lines if not one.get_label().startswith("_")]
        looks = [
            (str(one.get_linestyle()), str(one.get_marker()), one.get_linewidth())
            for one in named
        ]
        assert len(set(looks)) == len(looks), looks
        bars = [
            one for one in axis.containers if isinstance(one, container.BarContainer)
        ]
        hatches = [one.patches[0].get_hatch() for one in bars]
        assert len(set(hatches)) == len(hatches)
