"""⑤ How good a mask is: what it changes, what it keeps, and the price between the two."""
