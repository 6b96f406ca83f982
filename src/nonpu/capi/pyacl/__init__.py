"""Hand-written parts of the module ``acl`` of the toolkit stand-in.

The build copies them to ``<nonpu home>/python/site-packages/acl``, beside what `nonpu.codegen.pyacl` renders from the
table of C functions. They import nothing of nonpu, so that any Python that reads ``PYTHONPATH`` can use the module.
"""
