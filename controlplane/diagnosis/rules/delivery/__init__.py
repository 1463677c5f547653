"""What happens to tokens after they were made."""
