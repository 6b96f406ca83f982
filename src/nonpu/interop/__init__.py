"""The one-call functions on the arrays that Python users have."""
