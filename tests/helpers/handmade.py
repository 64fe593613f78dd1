"""A small article made by hand."""

PARAGRAPHS = [
    f"Paragraph {number} tells of the apple harvest in the valley, and of {name}, who came over "
    f"the pass to help with the {work} and stayed until the first snow fell."
    for number, (name, work) in enumerate(
        [
            *(("Anna", "ladders"), ("Bertram", "baskets"), ("Clara", "horses")),
            *(("Dora", "kitchen"), ("Emil", "cider press"), ("Frieda", "accounts")),
        ]
    )
]
NAVIGATION = "<nav>{}</nav>".format(
    "".join(f'<a href="/menu/{number}">Menu {number}</a> ' for number in range(5))
)


def page(body: str, head: str = "<title>Harvest</title>", lang: str = "en") -> str:
    return (
        f'<!DOCTYPE html><html lang="{lang}"><head>{head}</head>'
        f"<body>{NAVIGATION}{body}</body></html>"
    )


def article(*paragraphs: str) -> str:
    inner = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs or PARAGRAPHS)
    return f"<main><article><h1>The harvest</h1>{inner}</article></main>"
