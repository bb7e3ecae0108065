"""The catalogue: one file a subject. Ids and facts follow the constraints measured on TileLang 0.1.15."""
