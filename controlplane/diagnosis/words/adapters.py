"""What is loaded beside a model."""

ADAPTER = r"adapter|lora"
