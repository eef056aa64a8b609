"""Applications that use tenure. Nothing in the library imports them."""
