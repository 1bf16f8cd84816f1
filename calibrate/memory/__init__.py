"""What an engine's memory holds, measured, and the `memory` of a profile."""
