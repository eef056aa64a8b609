"""The App object, alone in its module, so that every task module can import it and `app.py` can import them all."""

import tenure

app = tenure.App("restaurant")
