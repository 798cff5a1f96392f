"""The vectorized engine: devices and sessions as arrays, looked at only when a round asks for them."""
