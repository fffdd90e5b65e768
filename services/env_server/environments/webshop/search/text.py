"""What of a product can be searched for."""

from services.env_server.environments.webshop.product import Product


def indexed_text(product: Product) -> str:
    """The text that the search index holds for a product, lower-cased: title, description, first bullet and options.

    Further bullets, attributes, the category and the price cannot be found by search.
    """
    first_bullet = product.bullets[0] if product.bullets else ""
    options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in product.options.items())
    return f"{product.title} {product.description} {first_bullet} {options}".lower()
