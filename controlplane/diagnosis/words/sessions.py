"""Those who come back with what they said before."""

SESSIONS = r"(sessions?|conversations?|chats?|users?|agents?|clients?)"
