"""What a program does wrong with the C functions: NONPU_CHECK=1, and ``nonpu run --check``.

C notes facts (front/check.c), `program` replays them and finds misuse, `findings` has the words, `places` the lines of
the program's source. Nothing of this package is imported unless a program is checked.
"""
