"""What dialects share to build prompts: templates, fields of a row, few-shot draws,
chats, images, generation options."""
