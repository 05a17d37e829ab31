"""Tables in files: read twice, charged between, drawn and written whole or not at all."""
