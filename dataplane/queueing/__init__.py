"""The order in which admitted requests wait for a place on a replica, within bounds."""
