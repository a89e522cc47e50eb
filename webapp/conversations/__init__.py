"""Conversations and turns, the frames of the chat, and the bot host."""
