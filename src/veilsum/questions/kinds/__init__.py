"""The kinds of questions to tables: file section, consent text, command."""
