"""Access lines and life of the web servers in front of engines, and what they refuse."""

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.shape import shape

_LLAMA = "llama.cpp"

SHAPES = (
    shape(
        "HTTP",
        LogKind.HTTP_ANSWERED,
        r"\"(?P<w_method>[A-Z]{3,7}) (?P<w_path>\S+) HTTP/\d(?:\.\d)?\" (?P<status>\d{3})\b",
    ),
    *(
        shape(
            f"request {method}",
            LogKind.HTTP_ANSWERED,
            rf"request: +(?P<w_method>{method}) +(?P<w_path>/\S*) +\S+ +(?P<status>\d{{3}})\b",
            _LLAMA,
        )
        for method in ("POST", "GET", "DELETE", "OPTIONS")
    ),
    shape(
        "log_server_response",
        LogKind.HTTP_ANSWERED,
        r"\| (?P<w_method>[A-Z]{3,7}) (?P<w_path>/\S*) \S+ \| status (?P<status>\d{3})\b",
        _LLAMA,
    ),
    shape(
        "remote_addr",
        LogKind.HTTP_ANSWERED,
        r"\bstatus=(?P<status>\d{3}) method=\"(?P<w_method>[A-Z]+)\" path=\"(?P<w_path>[^\"]+)\"",
        _LLAMA,
    ),
    shape("startup", LogKind.READY, r"Application startup complete"),
    shape("Uvicorn", LogKind.READY, r"Uvicorn running on"),
    shape(
        "warmup",
        LogKind.WARMUP_STARTED,
        r"(?P<w_what>[\w .-]*\bwarmup): +\d+%\|.*?\| (?P<done>\d+)/(?P<total>\d+)",
    ),
    shape("Pre-Compile", LogKind.WARMUP_STARTED, r"Entering (?P<w_what>.+?) Pre-Compile session"),
    shape("Warming", LogKind.WARMUP_STARTED, r"Warming up (?P<w_what>[\w -]+)"),
    *(
        shape(key, LogKind.WARMUP_STARTED, r"(?i)(?P<w_what>[\w-]*) ?autotun(?:e|ing|er)\b")
        for key in ("autotune", "autotuning", "Autotuning", "AutoTuner", "Autotuner")
    ),
    shape("full", LogKind.REJECTED, r"(?i)\b(?:request )?queue (?:is )?full\b"),
    shape("backpressure", LogKind.REJECTED, r"(?i)dropped due to backpressure"),
    shape("BackPressureError", LogKind.REJECTED, r"BackPressureError"),
    shape("rejecting", LogKind.REJECTED, r"(?i)rejecting (?:new )?requests?"),
    shape("rejected", LogKind.REJECTED, r"(?i)\brequest\b.*\brejected\b"),
    shape("busy", LogKind.REJECTED, r"(?i)all workers are busy"),
    shape("Too", LogKind.REJECTED, r"Too many requests", status="429"),
)
