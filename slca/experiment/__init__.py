"""``slca experiment``: many training runs under equal budgets, and a report of what they show (method sections 4, 6, 7).

plan (cells of methods, seeds and parameters) -> run (train and evaluate) -> collect (numbers) -> text and figures
"""
