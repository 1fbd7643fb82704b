"""The answers that people and programs ask for, each declared once."""
