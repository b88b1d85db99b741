"""The rules that name suspects: each looks for one cause of failed runs."""
