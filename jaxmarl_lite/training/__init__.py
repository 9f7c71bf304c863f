"""What every baseline needs and nobody should get wrong twice."""
