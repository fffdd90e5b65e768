"""Full-text search over the products of a shop, equal to the original's Lucene index hit for hit.

`analyzer` turns text into terms, `build` writes an index from a stream of documents, `index` opens and searches it.
"""
