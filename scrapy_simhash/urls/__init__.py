"""Rules on addresses: which parts of them make no difference, as stored pages show. Pure."""
