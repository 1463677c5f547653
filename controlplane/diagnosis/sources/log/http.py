"""Access lines and life of the web servers in front of engines."""

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.shape import shape

SHAPES = (
    shape(
        "HTTP",
        LogKind.HTTP_ANSWERED,
        r"\"(?P<w_method>[A-Z]{3,7}) (?P<w_path>\S+) HTTP/\d(?:\.\d)?\" (?P<status>\d{3})\b",
    ),
    shape("startup", LogKind.READY, r"Application startup complete"),
    shape("Uvicorn", LogKind.READY, r"Uvicorn running on"),
)
