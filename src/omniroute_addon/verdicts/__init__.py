"""What does this answer mean? Rules as data, and the book that applies them."""
