"""Model lockout as pure values and steps; the plugin of the same name ties them to a request's life."""
