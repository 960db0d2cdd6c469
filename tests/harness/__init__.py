"""What the tests drive the product with: real processes, scripted peers."""
