"""What every compiled executor does, whatever device it runs on."""
