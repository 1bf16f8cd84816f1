"""From a scenario to a replica count, and how sure that is."""
