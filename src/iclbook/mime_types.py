"""Names under which an executed copy carries what the pages need beside pictures and text."""

#: Type of the output that carries a figure's numbers, its origin and its picture for phones.
FIGURE = "application/vnd.iclbook.figure+json"
#: In the metadata of the output that shows a panel of precomputed frames.
SLIDERS = "iclbook_slider"
#: In the metadata of the output that shows a model of the page, and how the markup of that begins.
MODEL = "iclbook_model"
MODEL_FIGURE = '<figure class="iclbook-model"'
