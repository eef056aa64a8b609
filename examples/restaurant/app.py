"""The restaurant's App with all of its tasks declared: what environment files and workers name as their app."""

from examples.restaurant import ledger, partners, photos, reports
from examples.restaurant.base import app

__all__ = ["app", "ledger", "partners", "photos", "reports"]
