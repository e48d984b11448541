"""A stream: what it has learned, the rows that wait for their block, and what happens to both."""
