"""The restaurant: the application of the README and of the demo."""
