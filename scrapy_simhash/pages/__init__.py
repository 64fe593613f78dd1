"""A page's bytes to texts, names, links, features, fingerprint and sketch (paper, section 2).

Pure: no Scrapy, no store, no processes.
"""

from typing import TYPE_CHECKING

from scrapy_simhash._faces import make_face

if TYPE_CHECKING:
    from scrapy_simhash.pages.features import FeatureSet as FeatureSet
    from scrapy_simhash.pages.fingerprint import (
        PageFingerprint as PageFingerprint,
        fingerprint_page as fingerprint_page,
        fingerprint_text as fingerprint_text,
        make_recipe as make_recipe,
    )
    from scrapy_simhash.pages.recipe import Recipe as Recipe

make_face(
    __name__,
    {
        "features": "FeatureSet",
        "fingerprint": "PageFingerprint fingerprint_page fingerprint_text make_recipe",
        "recipe": "Recipe",
    },
    "addresses features files fingerprint kinds links places recipe scopes sketch text",
)
