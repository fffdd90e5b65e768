"""Published models as ordinary Hugging Face folders, from packages that a machine without a model hub can install."""
