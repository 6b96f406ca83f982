"""Renderers: the C headers, the generated C of the front library, and the operator pages, from the specifications."""
