"""Read pages of the web for the model: addresses, requests, and HTML as Markdown."""
