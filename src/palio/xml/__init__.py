"""XML documents and XPath tree patterns: parsing, matching, containment."""
