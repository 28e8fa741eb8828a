"""Who leaves through which address: what the egress lock knows (`spec/07`)."""
