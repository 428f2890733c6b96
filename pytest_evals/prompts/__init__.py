"""Builds prompts for all dialects: templates, fields of rows, few-shot examples, chats,
images and generation options."""
