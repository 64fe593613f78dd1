"""What tests share: servers, pages, crawls, stores, oracles."""
