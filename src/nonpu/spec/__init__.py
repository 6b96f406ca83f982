"""What an operator specification is made of: parameters, checks, layout rules."""
