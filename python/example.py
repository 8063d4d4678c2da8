"""Translates the arguments: python3 example.py MODEL TEXT..."""

import sys

import vkformer

if len(sys.argv) < 3:
    sys.exit("usage: example.py MODEL TEXT...")
with vkformer.Model(sys.argv[1]) as model, model.session() as session:
    for translation in session.translate(sys.argv[2:]):
        print(translation)
