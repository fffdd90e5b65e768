"""The small policy: a Llama of about a million weights with its own tokenizer, which learns an environment on a CPU.

`readings` holds, for each environment, the words it knows and how it abridges what the environment says (`reading` is
what a reading consists of); `tokenizer` turns one into a ``tokenizer.json``; `model` makes the network, `following`
begins some of its weights as a circuit that copies; `checkpoint` writes the folder that vLLM and Transformers load.
"""
