"""What an endpoint can take, and who may send when."""
