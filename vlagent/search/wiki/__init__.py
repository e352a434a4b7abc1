"""MediaWiki dumps: streamed pages, cleaned markup, titled passages, redirects as other names."""
