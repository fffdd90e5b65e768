"""The small policy: a Llama of about half a million weights with its own tokenizer, which learns ALFWorld on a CPU.

`reading` holds the words it knows and how it abridges the game's sentences, `tokenizer` turns that into a
``tokenizer.json``, `model` makes the network, `checkpoint` writes the folder that vLLM and Transformers load.
"""
