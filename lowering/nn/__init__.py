"""Rewrites of whole-tensor operations."""
