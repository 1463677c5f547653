"""Those who come back with what they said before."""

SESSIONS = r"(sessions?|conversations?|chats?|users?|agents?|clients?)"
NUM_SESSIONS = rf"^(num )?{SESSIONS}( active| open)?$"
