"""Documents of a deployment that moves in steps, and others that it then moves to."""

from tests.controlplane.config_documents import DEPLOYMENT, DESIGN_POLICY, MODEL, SERVICE

STEPS = "{steps: [{share: 5%, for: 1h}, {share: 25%, for: 1h, pause: true}, {share: 50%, for: 1h}]}"
"""None of them ends by itself while a test looks."""
ROLLING = DEPLOYMENT.replace("replicas: 2", f"replicas: 2, rollout: {STEPS}")
ROLLING_SERVICE = (*SERVICE[:-1], ROLLING)
OTHER_POLICY = DESIGN_POLICY.replace("max_queue: 64", "max_queue: 65")
OTHER_MODEL = MODEL.replace("smollm2.gguf", "other.gguf")
