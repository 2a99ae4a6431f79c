"""The device `null`: it runs the host half of a step and writes down what the device would do."""
