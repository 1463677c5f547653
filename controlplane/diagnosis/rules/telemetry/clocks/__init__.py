"""What shows that two clocks were held against each other."""
