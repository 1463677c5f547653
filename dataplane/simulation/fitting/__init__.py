"""What a step of a real engine takes, learned from the records of its requests.

    records -> rows (rows.py) -> steps (steps.py) -> coefficients (regression.py)
            -> overheads around them (overheads.py) -> the document (document.py)

The document holds its own residuals, and `FittedCost` makes a CostModel of it.
"""
