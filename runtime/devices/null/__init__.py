"""The device `null`: it runs the host half of a step, and shows what a device would be asked to do."""
