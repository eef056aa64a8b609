"""The soak: real workers on ministack, killed at random for half an hour, and an audit of what they leave behind."""
