"""How rules look at a window: by the words of facts, by the course of a signal, by what goes on."""
