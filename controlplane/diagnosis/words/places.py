"""The many that do the same work: replicas and whatever else they are called."""

PLACES = r"(replicas?|pods?|workers?|instances?|nodes?|engines)"
NUM_PLACES = r"^(num )?(replicas|workers|pods|engines|instances)$"
MOST_PLACES = rf"max(imum)? {PLACES}|{PLACES} (max|limit|allowed)"
