"""How engines start, stand still and do not let go."""
