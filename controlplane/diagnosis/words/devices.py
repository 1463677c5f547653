"""The devices that hold one model together."""

NUM_DEVICES = r"tensor parallel( size)?$|^tp( size)?$|^(num )?(gpus|cards|nodes|ranks)$"
NOT_NUM_DEVICES = r"free|used|util|memory"
