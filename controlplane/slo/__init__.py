"""What a contract's objectives mean over time: budgets, burn rates, alerts, and what is made of
them for others. Pure but for what reads the counts."""
