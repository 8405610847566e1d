"""For the tests of images: a small set of glyphs, its network and episodes."""

from dataclasses import replace

from iclbook.papers.wang2025.networks import Network
from iclbook.tasks.glyphs import FewShot, GlyphSet

SMALL = GlyphSet(n_classes=14, n_train=8, typefaces=4, copies=2, size=12)
#: The same with as many typefaces as the real set asks for: fewer characters have so many, so they are compared in a third of the time.
FACES = replace(SMALL, typefaces=12)
TINY = Network(SMALL, 8, 0, channels=(4, 8), d=16, epochs=2, batch_size=16)
SHORT = FewShot(3, 2)
