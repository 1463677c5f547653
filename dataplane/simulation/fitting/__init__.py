"""What a step of a real engine takes, learned from the records of its requests.

    records -> rows (rows.py) -> steps (steps.py) -> coefficients (regression.py)
            -> overheads around them (overheads.py) -> the document (document.py)

Where nothing shows a step, its mean is put together from who ran beside each request, or from
sums at several times:

    vLLM's spans (vllm_requests.py) and records of attached endpoints (attached.py)
            -> windows (windows.py) -> coefficients (mean_steps.py)
    vLLM's scrapes (vllm_scrapes.py) -> intervals -> coefficients (vllm.py)

The document holds its own residuals, and `FittedCost` makes a CostModel of it.
"""
