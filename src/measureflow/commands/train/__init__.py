"""`measureflow train`: attention heads or neurons trained as measures, with certificates and error budgets."""
