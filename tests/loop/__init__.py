"""A real engine measured, simulated with the profile just measured, and compared, on this machine."""
