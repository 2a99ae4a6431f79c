"""Schedules: one file per kind of kernel, and the threads that share them."""
