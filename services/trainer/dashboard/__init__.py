"""The dashboard: NiceGUI pages that the trainer service serves at ``/``, beside its API.

A page is one module with a `Page` named ``PAGE``, entered in `pages.PAGES`. What a page shows is computed by functions
that know nothing of drawing (``*_data.py``), so that they can be tested without a browser.
"""

from services.trainer.dashboard.install import Dashboard

__all__ = ["Dashboard"]
