"""Moving a deployment to another revision in steps, and back where its contract suffers."""
