"""Devices that run compiled programs."""
