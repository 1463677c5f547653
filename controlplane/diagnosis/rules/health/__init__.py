"""What health is made of; the rule itself is `rules.healthy`."""
