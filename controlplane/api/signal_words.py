"""What people call the signals of objectives, on every page and in every sentence."""

from dataplane.contract_terms import ObjectiveSignal

SIGNAL_WORDS = {
    ObjectiveSignal.TTFT: "TTFT",
    ObjectiveSignal.FIRST_ANSWER: "first answer",
    ObjectiveSignal.TPOT: "TPOT",
    ObjectiveSignal.MAX_ITL: "longest ITL",
    ObjectiveSignal.CHUNK_GAP: "longest chunk gap",
    ObjectiveSignal.E2E: "E2E",
    ObjectiveSignal.ACCEPTANCE: "acceptance",
    ObjectiveSignal.AVAILABILITY: "availability",
}
