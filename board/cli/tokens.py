"""Commands about tokens, on the store itself or, with an admin's token, on a running board."""
