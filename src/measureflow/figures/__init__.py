"""Figures of papers and talks, each drawn by one command: `measureflow figure NAME`.

The table `FIGURES` says for each what it shows, of which paper it is, and who draws it: a study, or a module of this package
with a function `figure`.

    measureflow.figures.draw("polytope").savefig("polytope.png")
"""

from measureflow.figures.catalogue import FIGURES as FIGURES
from measureflow.figures.catalogue import Entry as Entry
from measureflow.figures.catalogue import draw as draw
