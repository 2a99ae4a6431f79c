"""The interactive debugger of `openinfer debug`: session, commands, what they show, the prompt."""
