"""Explanations over HTTP: one thread owns the model, requests that ask alike share its passes, and everything has a
limit. Start reading at `app.py`; `batching.py` is where requests meet."""
