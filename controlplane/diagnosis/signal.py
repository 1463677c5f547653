"""The signals, where rules look for them."""

from dataplane.engine_metrics.signal import Signal as Signal
from dataplane.engine_metrics.signal import SignalKind as SignalKind
from dataplane.engine_metrics.signal import SignalTerms as SignalTerms
from dataplane.engine_metrics.signal import Unit as Unit
